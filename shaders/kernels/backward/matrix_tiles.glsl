// The tiles of the backward pass on matrix units (VK_KHR_cooperative_matrix): f16 factors, or bf16 where BFLOAT16 is defined; f32 sums.
// A subgroup owns MATRIX_M of the tile's own ones. What tiles.glsl says of own ones and those that pass by holds here, too.
#ifndef BACKWARD_MATRIX_TILES_GLSL
#define BACKWARD_MATRIX_TILES_GLSL

#include "common/matrices.glsl"

#define VECTOR uvec4 // eight dims on their way

#ifdef ROLLED // as kernels/coopmat/matrices.glsl says
#define FOR_MATRICES(i, n) [[dont_unroll]] for (uint i = 0; i < (n); ++i)
#else
#define FOR_MATRICES(i, n) [[unroll]] for (uint i = 0; i < (n); ++i)
#endif

const uint SUBGROUPS = WORKGROUP_SIZE / SUBGROUP_SIZE;
const uint OWN = SUBGROUPS * MATRIX_M;
const uint PASSING = KEYS_OF_TILE;
const uint PASSING_TILES = PASSING / MATRIX_N;
const uint FIRST_BLOCKS = (HEAD_DIM + MATRIX_N - 1) / MATRIX_N; // matrices of an own one's sums
const uint SECOND_BLOCKS = (V_HEAD_DIM + MATRIX_N - 1) / MATRIX_N;
const uint SUM_DIMS = (FIRST_BLOCKS > SECOND_BLOCKS ? FIRST_BLOCKS : SECOND_BLOCKS) * MATRIX_N;

// In shared memory, in elements of sixteen bytes, with a gap behind each row: factors of products, where weights and gradients of scores
// lie afterwards; and scores and gradients of weights in f32, where what is summed lies afterwards, with what passes by along its rows.
const uint PITCH = DIMS_OF_CHUNK / 8 + 1;
const uint PASSING_FACTORS = OWN * PITCH;
const uint WEIGHT_PITCH = PASSING / 8 + 1;
const uint WEIGHTS = 0, SCORE_GRADIENTS = OWN * WEIGHT_PITCH;
const uint FACTORS_SIZE = (OWN + PASSING) * PITCH, WEIGHTS_SIZE = 2 * OWN * WEIGHT_PITCH;
const uint SCORES = FACTORS_SIZE > WEIGHTS_SIZE ? FACTORS_SIZE : WEIGHTS_SIZE;
const uint SCORE_PITCH = PASSING / 4 + 1;
const uint GRADIENTS = SCORES + OWN * SCORE_PITCH;
const uint SUM_PITCH = PASSING / 8 + 1;
const uint SCORES_SIZE = 2 * OWN * SCORE_PITCH, SUMMED_SIZE = SUM_DIMS * SUM_PITCH;
shared uvec4 tiles[SCORES + (SCORES_SIZE > SUMMED_SIZE ? SCORES_SIZE : SUMMED_SIZE)];

uint lane() { return gl_LocalInvocationID.x; }
uint first_own() { return subgroup_index() * MATRIX_M; } // of the subgroup

// So many times larger are weights, and gradients of scores, as factors of sixteen bits: what is small keeps its digits.
#ifdef BFLOAT16
const float WEIGHTS_LARGER = 1.0, GRADIENTS_LARGER = 1.0;
#else
const float WEIGHTS_LARGER = 4096.0, GRADIENTS_LARGER = 4.0;
#endif
const float LARGEST_FACTOR = 65504.0;
float gradients_larger = GRADIENTS_LARGER; // and by a power of two that makes the largest element of d_output about one

float unit_of_weights() { return 1.0 / WEIGHTS_LARGER; }
float unit_of_score_gradients() { return 1.0 / gradients_larger; }

shared float largest_found[WORKGROUP_SIZE];

// The deltas' dispatch has left the largest elements of d_output of its workgroups in the carries.
void start_tiles() {
#ifndef BFLOAT16
    float largest = 0.0;
    for (uint i = lane(); i < push.first_row; i += WORKGROUP_SIZE) largest = max(largest, carries[carry_element(i)]);
    largest_found[lane()] = largest;
    barrier();
    for (uint i = 0; i < WORKGROUP_SIZE; ++i) largest = max(largest, largest_found[i]);
    if (largest > 1e-30 && largest < 1e30) gradients_larger = GRADIENTS_LARGER * exp2(-floor(log2(largest)));
#endif
}

#define STAGE(first_element, count, dim, load)                                                                         \
    [[dont_unroll]] for (uint n = lane(); n < (count) * (DIMS_OF_CHUNK / 8); n += WORKGROUP_SIZE) {                    \
        uint i = n / (DIMS_OF_CHUNK / 8), vector = n % (DIMS_OF_CHUNK / 8), at = (dim) + 8 * vector;                   \
        tiles[(first_element) + i * PITCH + vector] = load;                                                            \
    }

SUMS scores_of_tile[PASSING_TILES], gradients_of_tile[PASSING_TILES];

#define MULTIPLY(products, own_vector, passing_vector, size)                                                           \
    FOR_MATRICES(k, PASSING_TILES) products[k] = ZEROS;                                                                \
    [[dont_unroll]] for (uint dim = 0; dim < size; dim += DIMS_OF_CHUNK) {                                             \
        barrier(); /* the tiles' last readers are done */                                                              \
        STAGE(0, OWN, dim, own_vector(i, at));                                                                         \
        STAGE(PASSING_FACTORS, PASSING, dim, passing_vector(i, at));                                                   \
        barrier();                                                                                                     \
        FOR_MATRICES(step, DIMS_OF_CHUNK / MATRIX_K) {                                                                 \
            MATRIX_A own;                                                                                              \
            coopMatLoad(own, tiles, first_own() * PITCH + step * MATRIX_K / 8, PITCH, ROWS_IN_MEMORY);                 \
            FOR_MATRICES(k, PASSING_TILES) {                                                                           \
                MATRIX_B passing;                                                                                      \
                coopMatLoad(passing, tiles, PASSING_FACTORS + k * MATRIX_N * PITCH + step * MATRIX_K / 8, PITCH,       \
                            COLUMNS_IN_MEMORY);                                                                        \
                products[k] = coopMatMulAdd(own, passing, products[k]);                                                \
            }                                                                                                          \
        }                                                                                                              \
    }

#define PUT_PRODUCTS(first_element, products)                                                                          \
    FOR_MATRICES(k, PASSING_TILES)                                                                                     \
    coopMatStore(products[k], tiles, (first_element) + first_own() * SCORE_PITCH + k * MATRIX_N / 4, SCORE_PITCH,      \
                 ROWS_IN_MEMORY);

// Rounded to nearest, as packHalf2x16 need not.
uint pack_factors(vec2 numbers) {
#if defined(BFLOAT16)
    return pack_elements(numbers);
#elif defined(EMULATED_SUBGROUPS)
    return pack_elements(clamp(numbers, -LARGEST_FACTOR, LARGEST_FACTOR));
#else
    return packFloat2x16(f16vec2(clamp(numbers, -LARGEST_FACTOR, LARGEST_FACTOR)));
#endif
}

uvec4 pack_eight(vec4 low, vec4 high) {
    return uvec4(pack_factors(low.xy), pack_factors(low.zw), pack_factors(high.xy), pack_factors(high.zw));
}

// One after the other, in place: the masks stand there once.
#define FINISH_EACH(all_visible)                                                                                       \
    [[dont_unroll]] for (uint n = subgroup_lane(); n < MATRIX_M * PASSING; n += SUBGROUP_SIZE) {                       \
        uint own = first_own() + n / PASSING, passing = n % PASSING, at = own * SCORE_PITCH + passing / 4;             \
        float product = parameters.scale_log2 * uintBitsToFloat(tiles[SCORES + at][passing % 4]);                      \
        float gradient = uintBitsToFloat(tiles[GRADIENTS + at][passing % 4]);                                          \
        uvec2 finished = floatBitsToUint(finish_pair(own, passing, product, gradient, all_visible));                   \
        tiles[SCORES + at][passing % 4] = finished.x;                                                                  \
        tiles[GRADIENTS + at][passing % 4] = finished.y;                                                               \
    }                                                                                                                  \
    subgroupBarrier();

#define FINISH_SCORES(all_visible)                                                                                     \
    subgroupBarrier();                                                                                                 \
    bool each = !is_plain(all_visible);                                                                                \
    if (each) {                                                                                                        \
        FINISH_EACH(all_visible)                                                                                       \
    }                                                                                                                  \
    [[dont_unroll]] for (uint n = subgroup_lane(); n < MATRIX_M * PASSING / 8; n += SUBGROUP_SIZE) {                   \
        uint own = first_own() + n / (PASSING / 8), vector = n % (PASSING / 8), at = own * SCORE_PITCH + 2 * vector;   \
        vec4 weights[2], gradients[2];                                                                                 \
        [[unroll]] for (uint half_ = 0; half_ < 2; ++half_) {                                                          \
            weights[half_] = uintBitsToFloat(tiles[SCORES + at + half_]);                                              \
            gradients[half_] = uintBitsToFloat(tiles[GRADIENTS + at + half_]);                                         \
            if (!each) [[unroll]]                                                                                      \
                for (uint c = 0; c < 4; ++c) {                                                                         \
                    vec2 numbers = row_numbers[numbers_of_pair(own, 8 * vector + 4 * half_ + c)];                      \
                    vec2 finished =                                                                                    \
                        finish_plain(parameters.scale_log2 * weights[half_][c], gradients[half_][c], numbers);         \
                    weights[half_][c] = finished.x;                                                                    \
                    gradients[half_][c] = finished.y;                                                                  \
                }                                                                                                      \
        }                                                                                                              \
        tiles[WEIGHTS + own * WEIGHT_PITCH + vector] =                                                                 \
            pack_eight(WEIGHTS_LARGER * weights[0], WEIGHTS_LARGER * weights[1]);                                      \
        tiles[SCORE_GRADIENTS + own * WEIGHT_PITCH + vector] =                                                         \
            pack_eight(gradients_larger * gradients[0], gradients_larger * gradients[1]);                              \
    }

#define MAKE_GRADIENTS(all_visible)                                                                                    \
    MULTIPLY(scores_of_tile, own_first, passing_first, HEAD_DIM)                                                       \
    MULTIPLY(gradients_of_tile, own_second, passing_second, V_HEAD_DIM)                                                \
    PUT_PRODUCTS(SCORES, scores_of_tile)                                                                               \
    PUT_PRODUCTS(GRADIENTS, gradients_of_tile)                                                                         \
    barrier(); /* the factors' last readers are done */                                                                \
    FINISH_SCORES(all_visible)

// What a factor of 0 does not hide.
uvec4 finite_elements(uvec4 words) {
    [[unroll]] for (uint i = 0; i < 4; ++i) words[i] &= ~(special_elements(words[i], CARRIES_INFINITE) * 0xffffu);
    return words;
}

// Eight dims of two neighbours: a word has the same dim of both.
void put_pair(uint pair, uint vector, uvec4 first, uvec4 second) {
    uvec4 even = first & 0xffffu | second << 16, odd = first >> 16 | second & 0xffff0000u;
    uint at = SCORES + 8 * vector * SUM_PITCH + pair / 4;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        tiles[at + 2 * i * SUM_PITCH][pair % 4] = even[i];
        tiles[at + (2 * i + 1) * SUM_PITCH][pair % 4] = odd[i];
    }
}

// Adds factors times what passes by. Where some are hidden, elements that are not finite count as 0: those that are seen have made the
// gradients of their scores no numbers.
#define ADD_PRODUCTS(sums, blocks, factors, passing_vector, all_visible)                                               \
    barrier(); /* the scores' last readers are done */                                                                 \
    [[dont_unroll]] for (uint n = lane(); n < PASSING / 2 * ((blocks)*MATRIX_N / 8); n += WORKGROUP_SIZE) {            \
        uint pair = n % (PASSING / 2), vector = n / (PASSING / 2);                                                     \
        uvec4 first = passing_vector(2 * pair, 8 * vector), second = passing_vector(2 * pair + 1, 8 * vector);         \
        if (!(all_visible)) {                                                                                          \
            first = finite_elements(first);                                                                            \
            second = finite_elements(second);                                                                          \
        }                                                                                                              \
        put_pair(pair, vector, first, second);                                                                         \
    }                                                                                                                  \
    barrier();                                                                                                         \
    FOR_MATRICES(step, PASSING / MATRIX_K) {                                                                           \
        MATRIX_A factor;                                                                                               \
        coopMatLoad(factor, tiles, (factors) + first_own() * WEIGHT_PITCH + step * MATRIX_K / 8, WEIGHT_PITCH,         \
                    ROWS_IN_MEMORY);                                                                                   \
        FOR_MATRICES(t, blocks) {                                                                                      \
            MATRIX_B summed;                                                                                           \
            coopMatLoad(summed, tiles, SCORES + t * MATRIX_N * SUM_PITCH + step * MATRIX_K / 8, SUM_PITCH,             \
                        COLUMNS_IN_MEMORY);                                                                            \
            sums[t] = coopMatMulAdd(factor, summed, sums[t]);                                                          \
        }                                                                                                              \
    }

#define DECLARE_SUMS(sums, blocks) SUMS sums[blocks];
#define START_SUMS(sums, blocks, carried, dims) FOR_MATRICES(t, blocks) sums[t] = ZEROS;

// A matrix after the other, through the place of the subgroup's scores. store: of an own one, from a dim on, four.
#define STORE_SUMS(sums, blocks, store)                                                                                \
    barrier(); /* the last readers of what lies there are done */                                                      \
    FOR_MATRICES(t, blocks) {                                                                                          \
        uint strip = SCORES + first_own() * SCORE_PITCH;                                                               \
        coopMatStore(sums[t], tiles, strip, SCORE_PITCH, ROWS_IN_MEMORY);                                              \
        subgroupBarrier();                                                                                             \
        [[dont_unroll]] for (uint n = subgroup_lane(); n < MATRIX_M * MATRIX_N / 4; n += SUBGROUP_SIZE) {              \
            uint row = n / (MATRIX_N / 4), block = n % (MATRIX_N / 4);                                                 \
            store(first_own() + row, t * MATRIX_N + 4 * block,                                                         \
                  uintBitsToFloat(tiles[strip + row * SCORE_PITCH + block]));                                          \
        }                                                                                                              \
        subgroupBarrier(); /* the strip's last readers are done */                                                     \
    }

#endif
