// The tiles of the backward pass in shared memory. A workgroup owns a tile, of query rows or of keys (OF_KEYS), and tiles of the other
// kind pass by. Of both kinds it multiplies the first vectors, Q and K, and the second ones, d_output and V: before, own_first,
// own_second, passing_first and passing_second load eight dims of one of the tile.
#ifndef BACKWARD_TILES_GLSL
#define BACKWARD_TILES_GLSL

const uint ROW_GROUPS = WORKGROUP_SIZE / COLUMNS;
const uint OWN = ROW_GROUPS * ROWS;
const uint PASSING = COLUMNS * KEYS_OF_INVOCATION;

const uint PITCH = DIMS_OF_CHUNK / 4 + 1; // elements between those of a tile: neighbours lie in other banks
const uint FIRST_BLOCKS = ((HEAD_DIM + 3) / 4 + COLUMNS - 1) / COLUMNS; // of four dims of an own one's sum, of an invocation
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
                [[unroll]] for (uint k = 0, s = r * KEYS_OF_INVOCATION; k < KEYS_OF_INVOCATION; ++k, ++s)
                    products[s] = fma(own[c], passing[k][c], products[s]);
        }
    }
}

void clear_products() {
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) products[i] = 0.0;
}

#define PUT_PRODUCTS(tile, factor)                                                                                     \
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i)                                                    \
        tile[number_at(own_of(i / KEYS_OF_INVOCATION), i % KEYS_OF_INVOCATION)] = (factor) * products[i];

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
            [[unroll]] for (uint r = 0; r < ROWS; ++r)                                                                 \
                sums[r * blocks + block] = fma(vec4(factor[r]), vector, sums[r * blocks + block]);                     \
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

#define SUM(sums, blocks, factors, passing_vector)                                                                     \
    [[dont_unroll]] for (uint first = 0; first < PASSING; first += KEYS_OF_CHUNK) {                                    \
        barrier(); /* the factors are there, and the tile's last readers are done */                                   \
        const uint vectors = (blocks * COLUMNS + 1) / 2;                                                               \
        [[dont_unroll]] for (uint n = lane(); n < KEYS_OF_CHUNK * vectors; n += WORKGROUP_SIZE) {                      \
            uint i = n / vectors, vector = n % vectors;                                                                \
            mat2x4 loaded = passing_vector(passing_at(first + i), 8 * vector);                                         \
            stage_beyond(i * SUM_PITCH + 2 * vector, loaded[0]);                                                       \
            stage_beyond(i * SUM_PITCH + 2 * vector + 1, loaded[1]);                                                   \
        }                                                                                                              \
        barrier();                                                                                                     \
        if (vectors_beyond_numbers == 0) {                                                                             \
            SUM_CHUNK(sums, blocks, factors, first)                                                                    \
        } else {                                                                                                       \
            SUM_SEEN_OF_CHUNK(sums, blocks, factors, first)                                                            \
        }                                                                                                              \
    }

#endif
