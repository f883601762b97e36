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
const uint OWN_SIZE = OWN * PITCH, PASSING_SIZE = PRODUCT_TILE > SUM_TILE ? PRODUCT_TILE : SUM_TILE; // in fours of dims

// Fours of dims in halves, all first ones before all second ones: compilers that read 8 bytes at a time would find each half of
// neighbouring fours in every other bank.
shared vec2 own_tile[2 * OWN_SIZE];
shared vec2 passing_tile[2 * PASSING_SIZE];
#define GET(tile, size, at) vec4(tile[at], tile[(at) + (size)])
#define PUT(tile, size, at, four)                                                                                      \
    tile[at] = (four).xy;                                                                                              \
    tile[(at) + (size)] = (four).zw;

// In pairs of those that pass by; with READS_AHEAD with a gap behind each own one's, so that neighbouring own ones lie in other banks.
const uint NUMBER_PITCH = PASSING / 2 + READS_AHEAD;
shared vec2 score_tile[OWN * NUMBER_PITCH];    // scores, then weights, dropped where dropout says so
shared vec2 gradient_tile[OWN * NUMBER_PITCH]; // gradients of weights, then of scores

// Of each row of the tile the logarithm of its sum, in units of log 2, and delta.
shared vec2 row_numbers[OWN > PASSING ? OWN : PASSING];

// Not 0 if a vector that was staged for sums is infinite or not a number: a factor of 0 does not hide it.
shared uint vectors_beyond_numbers;

uint lane() { return gl_LocalInvocationID.x; }
uint column() { return lane() % COLUMNS; }
uint own_of(uint r) { return lane() / COLUMNS + r * ROW_GROUPS; }

uint passing_of(uint k) { return column() + k * COLUMNS; }

// Numbers of a tile lie in such positions that an invocation's own ones are pairs, and its neighbours' pairs lie beside them.
uint position_at(uint passing) {
    uint column = passing % COLUMNS, k = passing / COLUMNS;
    return KEYS_OF_INVOCATION > 1 ? 2 * (k / 2 * COLUMNS + column) + k % 2 : column;
}
uint passing_at(uint position) {
    return KEYS_OF_INVOCATION > 1 ? position / 2 % COLUMNS + (position / (2 * COLUMNS) * 2 + position % 2) * COLUMNS
                                  : position;
}
#define NUMBER(tile, own, position) tile[(own)*NUMBER_PITCH + (position) / 2][(position) % 2]

// Number `k` of the invocation's own ones.
uint own_pair(uint own, uint k) {
    return own * NUMBER_PITCH + (KEYS_OF_INVOCATION > 1 ? k / 2 * COLUMNS + column() : column() / 2);
}
#define OWN_NUMBER(tile, own, k) tile[own_pair(own, k)][KEYS_OF_INVOCATION > 1 ? (k) % 2 : column() % 2]

uint beyond_numbers(vec4 block) {
    uvec4 carried = (floatBitsToUint(block) & 0x7f800000u) + 0x00800000u;
    return (carried.x | carried.y | carried.z | carried.w) & 0x80000000u;
}

// An invocation loads vectors of eight dims in turns; with READS_AHEAD those of all its turns are under way together. Past the last vector
// that one is loaded once more: no load is under a branch.
#define TURNS(vectors) (((vectors) + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE)
#define IS_LOADED(n, vectors) (TURNS(vectors) * WORKGROUP_SIZE == (vectors) || (n) < (vectors))

// Fills a tile of `count` rows with `of_one` vectors each. load: of number `i` and its vector `v`; put: at an element, four dims.
#define STAGE(count, of_one, pitch, load, put)                                                                         \
    if (READS_AHEAD != 0) {                                                                                            \
        STAGE_TURNS(0, TURNS((count) * (of_one)), (count) * (of_one), of_one, pitch, load, put)                        \
    } else {                                                                                                           \
        [[dont_unroll]] for (uint first = 0; first < TURNS((count) * (of_one)); ++first)                               \
            STAGE_TURNS(first, 1, (count) * (of_one), of_one, pitch, load, put)                                        \
    }
#define STAGE_TURNS(first, turns, vectors, of_one, pitch, load, put)                                                   \
    {                                                                                                                  \
        mat2x4 loaded[turns];                                                                                          \
        [[unroll]] for (uint turn = 0; turn < (turns); ++turn) {                                                       \
            uint n = ((first) + turn) * WORKGROUP_SIZE + lane();                                                       \
            if (!IS_LOADED(n, vectors)) n = (vectors)-1;                                                               \
            uint i = n / (of_one), v = n % (of_one);                                                                   \
            loaded[turn] = load;                                                                                       \
        }                                                                                                              \
        [[unroll]] for (uint turn = 0; turn < (turns); ++turn) {                                                       \
            uint n = ((first) + turn) * WORKGROUP_SIZE + lane(), at = n / (of_one) * (pitch) + n % (of_one)*2;         \
            if (IS_LOADED(n, vectors)) {                                                                               \
                put(at, loaded[turn][0]);                                                                              \
                put(at + 1, loaded[turn][1]);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }

void put_own(uint at, vec4 block) { PUT(own_tile, OWN_SIZE, at, block) }
void put_passing(uint at, vec4 block) { PUT(passing_tile, PASSING_SIZE, at, block) }
void put_summed(uint at, vec4 block) {
    put_passing(at, block);
    if (beyond_numbers(block) != 0) atomicOr(vectors_beyond_numbers, 1);
}

float products[ROWS * KEYS_OF_INVOCATION];

const uint FOURS_AT_ONCE = READS_AHEAD == 0 ? 1 : DIMS_OF_CHUNK % 16 == 0 ? 4 : 2; // of dims

void multiply_chunk() {
    [[dont_unroll]] for (uint first = 0; first < DIMS_OF_CHUNK / 4; first += FOURS_AT_ONCE)
        [[unroll]] for (uint four = 0; four < FOURS_AT_ONCE; ++four) {
        uint i = first + four;
        vec4 passing[KEYS_OF_INVOCATION];
        [[unroll]] for (uint k = 0; k < KEYS_OF_INVOCATION; ++k) passing[k] =
            GET(passing_tile, PASSING_SIZE, passing_of(k) * PITCH + i);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            vec4 own = GET(own_tile, OWN_SIZE, own_of(r) * PITCH + i);
            [[unroll]] for (uint c = 0; c < 4; ++c)
                [[unroll]] for (uint k = 0, s = r * KEYS_OF_INVOCATION; k < KEYS_OF_INVOCATION; ++k, ++s) products[s] =
                    fma(own[c], passing[k][c], products[s]);
        }
    }
}

void clear_products() { [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) products[i] = 0.0; }

#define PUT_PRODUCTS(tile, factor)                                                                                     \
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i)                                                    \
        OWN_NUMBER(tile, own_of(i / KEYS_OF_INVOCATION), i % KEYS_OF_INVOCATION) = (factor)*products[i];

#define MULTIPLY(own_vector, passing_vector, size)                                                                     \
    clear_products();                                                                                                  \
    [[dont_unroll]] for (uint dim = 0; dim < size; dim += DIMS_OF_CHUNK) {                                             \
        barrier(); /* the tiles' last readers are done */                                                              \
        STAGE(OWN, DIMS_OF_CHUNK / 8, PITCH, own_vector(i, dim + 8 * v), put_own)                                      \
        STAGE(PASSING, DIMS_OF_CHUNK / 8, PITCH, passing_vector(i, dim + 8 * v), put_passing)                          \
        barrier();                                                                                                     \
        multiply_chunk();                                                                                              \
    }

// Adds to the sums, `blocks` of each own one, factors times what passes by. Where a vector is not of numbers, those whose factor is 0
// add nothing.
const uint MOST_SUMMED = ROWS * MOST_BLOCKS > 8 ? 2 : 4; // at once, beside so many sums
const uint SUMMED = READS_AHEAD == 0 ? 1 : KEYS_OF_CHUNK < MOST_SUMMED ? KEYS_OF_CHUNK : MOST_SUMMED;
const uint FACTORS = SUMMED == 1 ? 1 : 2; // in a load
#define SUM_CHUNK(sums, blocks, factors, chunk, sum_of)                                                                \
    [[dont_unroll]] for (uint i = 0; i < KEYS_OF_CHUNK / SUMMED; ++i) {                                                \
        vec2 factor[ROWS * SUMMED / FACTORS];                                                                          \
        [[unroll]] for (uint j = 0; j < ROWS * SUMMED / FACTORS; ++j) {                                                \
            uint own = own_of(j / (SUMMED / FACTORS)), pair = j % (SUMMED / FACTORS);                                  \
            if (FACTORS == 2)                                                                                          \
                factor[j] = factors[own * NUMBER_PITCH + (chunk) * (KEYS_OF_CHUNK / 2) + i * (SUMMED / 2) + pair];     \
            else                                                                                                       \
                factor[j].x = NUMBER(factors, own, (chunk)*KEYS_OF_CHUNK + i);                                         \
        }                                                                                                              \
        [[unroll]] for (uint block = 0; block < blocks; ++block) {                                                     \
            [[unroll]] for (uint s = 0; s < SUMMED; ++s) {                                                             \
                uint at = (i * SUMMED + s) * SUM_PITCH + column() + block * COLUMNS;                                   \
                vec4 vector = GET(passing_tile, PASSING_SIZE, at);                                                     \
                [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r * blocks + block] =                                  \
                    sum_of(factor[(r * SUMMED + s) / FACTORS][s % FACTORS], vector, sums[r * blocks + block]);         \
            }                                                                                                          \
        }                                                                                                              \
    }
#define SUM(factor, vector, sum) fma(vec4(factor), vector, sum)
#define SUM_SEEN(factor, vector, sum) mix(fma(vec4(factor), vector, sum), sum, bvec4(factor == 0.0))

#define ADD_PRODUCTS(sums, blocks, factors, passing_vector, all_visible)                                               \
    [[dont_unroll]] for (uint chunk = 0; chunk < PASSING / KEYS_OF_CHUNK; ++chunk) {                                   \
        barrier(); /* the factors are there, and the tile's last readers are done */                                   \
        STAGE(KEYS_OF_CHUNK, (blocks * COLUMNS + 1) / 2, SUM_PITCH,                                                    \
              passing_vector(passing_at(chunk * KEYS_OF_CHUNK + i), 8 * v), put_summed)                                \
        barrier();                                                                                                     \
        if (vectors_beyond_numbers == 0) {                                                                             \
            SUM_CHUNK(sums, blocks, factors, chunk, SUM)                                                               \
        } else {                                                                                                       \
            SUM_CHUNK(sums, blocks, factors, chunk, SUM_SEEN)                                                          \
        }                                                                                                              \
    }

// Of numbers of the invocation's own. Where masks are looked up, in a loop over shared memory: unrolled, they would stand there for each.
#define FINISH_SCORES(all_visible)                                                                                     \
    if (READS_AHEAD != 0 && is_plain(all_visible)) {                                                                   \
        [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) {                                              \
            uint own = own_of(i / KEYS_OF_INVOCATION), k = i % KEYS_OF_INVOCATION;                                     \
            vec2 finished = finish_plain(OWN_NUMBER(score_tile, own, k), products[i],                                  \
                                         row_numbers_at(numbers_of_pair(own, passing_of(k))));                         \
            OWN_NUMBER(score_tile, own, k) = finished.x;                                                               \
            OWN_NUMBER(gradient_tile, own, k) = finished.y;                                                            \
        }                                                                                                              \
    } else {                                                                                                           \
        PUT_PRODUCTS(gradient_tile, 1.0)                                                                               \
        [[dont_unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) {                                         \
            uint own = own_of(i / KEYS_OF_INVOCATION), k = i % KEYS_OF_INVOCATION;                                     \
            vec2 finished = finish_pair(own, passing_of(k), OWN_NUMBER(score_tile, own, k),                            \
                                        OWN_NUMBER(gradient_tile, own, k), all_visible);                               \
            OWN_NUMBER(score_tile, own, k) = finished.x;                                                               \
            OWN_NUMBER(gradient_tile, own, k) = finished.y;                                                            \
        }                                                                                                              \
    }

// Makes score_tile weights, and gradient_tile gradients of scores.
#define MAKE_GRADIENTS(all_visible)                                                                                    \
    MULTIPLY(own_first, passing_first, HEAD_DIM)                                                                       \
    PUT_PRODUCTS(score_tile, parameters.scale_log2)                                                                    \
    MULTIPLY(own_second, passing_second, V_HEAD_DIM)                                                                   \
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
