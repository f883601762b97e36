// The tiles of the backward pass in shared memory. A workgroup owns a tile, of query rows or of keys (OF_KEYS), and tiles of the other
// kind pass by. Of both kinds it multiplies the first vectors, Q and K, and the second ones, d_output and V: before, own_first,
// own_second, passing_first and passing_second load eight dims of one of the tile.
#ifndef BACKWARD_TILES_GLSL
#define BACKWARD_TILES_GLSL

const uint ROW_GROUPS = WORKGROUP_SIZE / COLUMNS;
const uint OWN = ROW_GROUPS * ROWS;
const uint PASSING = COLUMNS * KEYS_OF_INVOCATION;

const uint PITCH = DIMS_OF_CHUNK / 4 + 1; // elements between those of a tile: neighbours lie in other banks
const uint FIRST_BLOCKS =
    ((HEAD_DIM + 3) / 4 + COLUMNS - 1) / COLUMNS; // of four dims of an own one's sum, of an invocation
const uint SECOND_BLOCKS = ((V_HEAD_DIM + 3) / 4 + COLUMNS - 1) / COLUMNS;
const uint MOST_BLOCKS = FIRST_BLOCKS > SECOND_BLOCKS ? FIRST_BLOCKS : SECOND_BLOCKS;
const uint SUM_PITCH = MOST_BLOCKS * COLUMNS + 1;
const uint PRODUCT_TILE = PASSING * PITCH, SUM_TILE = KEYS_OF_CHUNK * SUM_PITCH;

shared vec4 own_tile[OWN * PITCH];
shared vec4 passing_tile[PRODUCT_TILE > SUM_TILE ? PRODUCT_TILE : SUM_TILE];
shared float score_tile[OWN * PASSING];    // scores, then weights, dropped where dropout says so
shared float gradient_tile[OWN * PASSING]; // gradients of weights, then of scores

// Not 0 if a vector that was staged for sums is infinite or not a number: a factor of 0 does not hide it.
shared uint vectors_beyond_numbers;

uint lane() { return gl_LocalInvocationID.x; }
uint column() { return lane() % COLUMNS; }
uint own_of(uint r) { return lane() / COLUMNS + r * ROW_GROUPS; }

// Numbers of a tile lie in the order of invocations: those of each side by side.
uint number_at(uint own, uint k) { return own * PASSING + column() * KEYS_OF_INVOCATION + k; }
uint passing_of(uint k) { return column() + k * COLUMNS; }
uint passing_at(uint position) { return position / KEYS_OF_INVOCATION + position % KEYS_OF_INVOCATION * COLUMNS; }

uint beyond_numbers(vec4 block) {
    uvec4 carried = (floatBitsToUint(block) & 0x7f800000u) + 0x00800000u;
    return (carried.x | carried.y | carried.z | carried.w) & 0x80000000u;
}

// Fills a tile of `count` with `dims` dims each, from dim `dim` on; load: of number `i` and dim `at`.
#define STAGE(tile, count, pitch, dim, dims, load)                                                                     \
    [[dont_unroll]] for (uint n = lane(); n < (count) * ((dims) / 8); n += WORKGROUP_SIZE) {                           \
        uint i = n / ((dims) / 8), vector = n % ((dims) / 8), at = (dim) + 8 * vector;                                 \
        mat2x4 loaded = load;                                                                                          \
        tile[i * (pitch) + 2 * vector] = loaded[0];                                                                    \
        tile[i * (pitch) + 2 * vector + 1] = loaded[1];                                                                \
    }

float products[ROWS * KEYS_OF_INVOCATION];

void multiply_chunk() {
    [[dont_unroll]] for (uint i = 0; i < DIMS_OF_CHUNK / 4; ++i) {
        vec4 passing[KEYS_OF_INVOCATION];
        [[unroll]] for (uint k = 0; k < KEYS_OF_INVOCATION; ++k) passing[k] = passing_tile[passing_of(k) * PITCH + i];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            vec4 own = own_tile[own_of(r) * PITCH + i];
            [[unroll]] for (uint c = 0; c < 4; ++c)
                [[unroll]] for (uint k = 0, s = r * KEYS_OF_INVOCATION; k < KEYS_OF_INVOCATION; ++k, ++s) products[s] =
                    fma(own[c], passing[k][c], products[s]);
        }
    }
}

void clear_products() { [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) products[i] = 0.0; }

#define PUT_PRODUCTS(tile, factor)                                                                                     \
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i)                                                    \
        tile[number_at(own_of(i / KEYS_OF_INVOCATION), i % KEYS_OF_INVOCATION)] = (factor)*products[i];

#define MULTIPLY(own_vector, passing_vector, size)                                                                     \
    clear_products();                                                                                                  \
    [[dont_unroll]] for (uint dim = 0; dim < size; dim += DIMS_OF_CHUNK) {                                             \
        barrier(); /* the tiles' last readers are done */                                                              \
        STAGE(own_tile, OWN, PITCH, dim, DIMS_OF_CHUNK, own_vector(i, at));                                            \
        STAGE(passing_tile, PASSING, PITCH, dim, DIMS_OF_CHUNK, passing_vector(i, at));                                \
        barrier();                                                                                                     \
        multiply_chunk();                                                                                              \
    }

// Adds to the sums, `blocks` of each own one, factors times what passes by. Where a vector is not of numbers, those whose factor is 0
// add nothing.
#define SUM_CHUNK(sums, blocks, factors, first)                                                                        \
    [[dont_unroll]] for (uint i = 0; i < KEYS_OF_CHUNK; ++i) {                                                         \
        float factor[ROWS];                                                                                            \
        [[unroll]] for (uint r = 0; r < ROWS; ++r) factor[r] = factors[own_of(r) * PASSING + (first) + i];             \
        [[unroll]] for (uint block = 0; block < blocks; ++block) {                                                     \
            vec4 vector = passing_tile[i * SUM_PITCH + column() + block * COLUMNS];                                    \
            [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r * blocks + block] =                                      \
                fma(vec4(factor[r]), vector, sums[r * blocks + block]);                                                \
        }                                                                                                              \
    }
#define SUM_SEEN_OF_CHUNK(sums, blocks, factors, first)                                                                \
    [[dont_unroll]] for (uint i = 0; i < KEYS_OF_CHUNK; ++i) {                                                         \
        [[unroll]] for (uint block = 0; block < blocks; ++block) {                                                     \
            vec4 vector = passing_tile[i * SUM_PITCH + column() + block * COLUMNS];                                    \
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                               \
                float factor = factors[own_of(r) * PASSING + (first) + i];                                             \
                vec4 sum = sums[r * blocks + block];                                                                   \
                sums[r * blocks + block] = factor == 0.0 ? sum : fma(vec4(factor), vector, sum);                       \
            }                                                                                                          \
        }                                                                                                              \
    }

void stage_beyond(uint at, vec4 block) {
    passing_tile[at] = block;
    if (beyond_numbers(block) != 0) atomicOr(vectors_beyond_numbers, 1);
}

#define ADD_PRODUCTS(sums, blocks, factors, passing_vector, all_visible)                                               \
    [[dont_unroll]] for (uint first = 0; first < PASSING; first += KEYS_OF_CHUNK) {                                    \
        barrier(); /* the factors are there, and the tile's last readers are done */                                   \
        const uint vectors = (blocks * COLUMNS + 1) / 2;                                                               \
        [[dont_unroll]] for (uint n = lane(); n < KEYS_OF_CHUNK * vectors; n += WORKGROUP_SIZE) {                      \
            uint i = n / vectors, vector = n % vectors;                                                                \
            mat2x4 loaded = passing_vector(passing_at(first + i), 8 * vector);                                         \
            stage_beyond(i *SUM_PITCH + 2 * vector, loaded[0]);                                                        \
            stage_beyond(i *SUM_PITCH + 2 * vector + 1, loaded[1]);                                                    \
        }                                                                                                              \
        barrier();                                                                                                     \
        if (vectors_beyond_numbers == 0) {                                                                             \
            SUM_CHUNK(sums, blocks, factors, first)                                                                    \
        } else {                                                                                                       \
            SUM_SEEN_OF_CHUNK(sums, blocks, factors, first)                                                            \
        }                                                                                                              \
    }

// Of numbers that lie as number_at says. In loops over shared memory: unrolled, the masks would stand there for each.
#define FINISH_SCORES(all_visible)                                                                                     \
    [[dont_unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) {                                             \
        uint own = own_of(i / KEYS_OF_INVOCATION), k = i % KEYS_OF_INVOCATION, at = number_at(own, k);                 \
        vec2 finished = finish_pair(own, passing_of(k), score_tile[at], gradient_tile[at], all_visible);               \
        score_tile[at] = finished.x;                                                                                   \
        gradient_tile[at] = finished.y;                                                                                \
    }

// Makes score_tile weights, and gradient_tile gradients of scores.
#define MAKE_GRADIENTS(all_visible)                                                                                    \
    MULTIPLY(own_first, passing_first, HEAD_DIM)                                                                       \
    PUT_PRODUCTS(score_tile, parameters.scale_log2)                                                                    \
    MULTIPLY(own_second, passing_second, V_HEAD_DIM)                                                                   \
    PUT_PRODUCTS(gradient_tile, 1.0)                                                                                   \
    FINISH_SCORES(all_visible)

// Sums of an invocation: `blocks` fours of dims of each of its own ones.
#define DECLARE_SUMS(sums, blocks) vec4 sums[ROWS * (blocks)];
#define WEIGHTS score_tile
#define SCORE_GRADIENTS gradient_tile

uint dim_of(uint block) { return (column() + block * COLUMNS) * 4; }

#define START_TILES(batch, kv_head)                                                                                    \
    if (lane() == 0) vectors_beyond_numbers = 0;
#define LOAD_AHEAD

// As matrix_tiles.glsl says.
#define PASS_TILE(more, all_visible)                                                                                   \
    {                                                                                                                  \
        barrier(); /* the last tile's numbers are done */                                                              \
        load_numbers();                                                                                                \
        keep_numbers();                                                                                                \
        bool visible = all_visible;                                                                                    \
        MAKE_GRADIENTS(visible)                                                                                        \
        add_sums(visible);                                                                                             \
        more = find_passing();                                                                                         \
    }
#define ADD_FIRST(sums, blocks, factors, all_visible) ADD_PRODUCTS(sums, blocks, factors, passing_first, all_visible)
#define ADD_SECOND(sums, blocks, factors, all_visible) ADD_PRODUCTS(sums, blocks, factors, passing_second, all_visible)

// Of each row of the tile the logarithm of its sum, in units of log 2, and delta.
shared vec2 row_numbers[OWN > PASSING ? OWN : PASSING];
vec2 row_numbers_at(uint i) { return row_numbers[i]; }
void keep_row_numbers(uint i, vec2 numbers) { row_numbers[i] = numbers; }
void keep_range(uint i, Row row) {}

// carried: the row of the carries of an own one, of those that exist.
#define START_SUMS(sums, blocks, carried, dims)                                                                        \
    [[unroll]] for (uint i = 0; i < ROWS * (blocks); ++i) sums[i] =                                                    \
        resumes() && is_own(own_of(i / (blocks)))                                                                      \
            ? load_carry(carried(own_of(i / (blocks))), dim_of(i % (blocks)), dims)                                    \
            : vec4(0);

// store: of an own one, from a dim on, four. The first block of sums is stored and the next one takes its place: the code stands there once.
#define STORE_SUMS(sums, blocks, store)                                                                                \
    [[dont_unroll]] for (uint i = 0; i < ROWS * (blocks); ++i) {                                                       \
        store(own_of(i / (blocks)), dim_of(i % (blocks)), sums[0]);                                                    \
        [[unroll]] for (uint j = 1; j < ROWS * (blocks); ++j) sums[j - 1] = sums[j];                                   \
    }

// What sums are divided by that the tiles made larger.
float unit_of_weights() { return 1.0; }
float unit_of_score_gradients() { return 1.0; }

#endif
