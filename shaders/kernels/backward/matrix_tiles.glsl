// The tiles of the backward pass on matrix units (VK_KHR_cooperative_matrix): f16 factors, or bf16 where BFLOAT16 is defined; f32 sums.
// A subgroup owns MATRIX_M of the tile's own ones, which are in registers (QUERY_IN_REGISTERS) or in shared memory throughout. What
// tiles.glsl says of own ones and those that pass by holds here, too. Of those that pass by an invocation has the next vectors in
// registers; they lie in shared memory twice, first as rows, for the products, then, in the same place, along their dims, for the sums.
#ifndef BACKWARD_MATRIX_TILES_GLSL
#define BACKWARD_MATRIX_TILES_GLSL

#include "common/matrices.glsl"

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

// In shared memory, in elements of sixteen bytes, with a gap behind each row.
const uint UNIT = MATRIX_K > 8 ? MATRIX_K : 8; // dims
const uint FIRST_VECTORS = (HEAD_DIM + UNIT - 1) / UNIT * UNIT / 8, FIRST_PITCH = FIRST_VECTORS + 1;
const uint SECOND_VECTORS = (V_HEAD_DIM + UNIT - 1) / UNIT * UNIT / 8, SECOND_PITCH = SECOND_VECTORS + 1;
const uint SUM_PITCH = PASSING / 8 + 1;
const uint SCORE_PITCH = PASSING / 4 + 1; // of f32
// Along the dims, as many as whole vectors and whole matrices have; the second ones of keys alone.
#define ROWS_OF_SUMS(vectors, blocks) (8 * (vectors) > (blocks)*MATRIX_N ? 8 * (vectors) : (blocks)*MATRIX_N)
const uint SUMMED_FIRST_ROWS = ROWS_OF_SUMS(FIRST_VECTORS, FIRST_BLOCKS);
#ifdef OF_KEYS
const uint SUMMED_SECOND_ROWS = ROWS_OF_SUMS(SECOND_VECTORS, SECOND_BLOCKS);
#else
const uint SUMMED_SECOND_ROWS = 0;
#endif

const uint OWN_FIRST = 0, OWN_SECOND = OWN_FIRST + OWN * FIRST_PITCH;
// Weights and gradients of scores, of each subgroup its own; where masks are looked up they have been here as f32.
const uint WEIGHT_PITCH = PASSING / 8 + 1;
const uint OWN_SIZE = OWN * (FIRST_PITCH + SECOND_PITCH);
const uint STRIPS = QUERY_IN_REGISTERS != 0 ? 0 : OWN_SIZE, STRIP_SIZE = 2 * MATRIX_M * SCORE_PITCH;
const uint PASSED = STRIPS + SUBGROUPS * STRIP_SIZE;
const uint PASSED_SECOND = PASSED + PASSING * FIRST_PITCH;
const uint SUMMED_SECOND = PASSED + SUMMED_FIRST_ROWS * SUM_PITCH;
const uint PASSED_SIZE = PASSING * (FIRST_PITCH + SECOND_PITCH);
const uint SUMMED_SIZE = (SUMMED_FIRST_ROWS + SUMMED_SECOND_ROWS) * SUM_PITCH;
const uint TILES_SIZE = PASSED + (PASSED_SIZE > SUMMED_SIZE ? PASSED_SIZE : SUMMED_SIZE);
shared uvec4 tiles[TILES_SIZE > OWN_SIZE ? TILES_SIZE : OWN_SIZE];

uint lane() { return gl_LocalInvocationID.x; }
uint first_own() { return subgroup_index() * MATRIX_M; } // of the subgroup
uint strip() { return STRIPS + subgroup_index() * STRIP_SIZE; }
uint weights_at() { return strip(); }
uint score_gradients_at() { return strip() + MATRIX_M * WEIGHT_PITCH; }

// So many times larger are weights, and gradients of scores, as factors of sixteen bits: what is small keeps its digits. Of f16 gradients by
// a power of two with which they fit as long as no element of V is larger than MOST_VALUE.
#ifdef BFLOAT16
const float WEIGHTS_LARGER = 1.0;
#else
const float WEIGHTS_LARGER = 4096.0;
#endif
const float LARGEST_FACTOR = 65504.0, MOST_VALUE = 256.0;
float gradients_larger = 1.0;

float unit_of_weights() { return 1.0 / WEIGHTS_LARGER; }
float unit_of_score_gradients() { return 1.0 / gradients_larger; }

// Of each row of the tile the logarithm of its sum, in units of log 2, and delta. Vectors, since matrices are loaded from them.
const uint NUMBERED = OWN > PASSING ? OWN : PASSING;
shared vec4 row_sums[(NUMBERED + 3) / 4], row_deltas[(NUMBERED + 3) / 4];

// Where nothing but positions and lengths hides keys, of each row the first key that it sees and the one behind its last, as f32.
#define BY_RANGE ((MASKS_BY_PAIR | LACKS_KEYS | (FEATURES & FEATURE_DROPOUT)) == 0u)
const uint RANGED = (NUMBERED + 3) / 4;
shared vec4 row_begins[RANGED], row_ends[RANGED], counted[RANGED]; // counted: 0, 1, 2 ...

void keep_range(uint i, Row row) {
    if (!BY_RANGE) return;
    KeyRange range = range_between(row.batch, row.position, row.position);
    row_begins[i / 4][i % 4] = float(range.begin);
    row_ends[i / 4][i % 4] = float(range.end);
}

vec2 row_numbers_at(uint i) { return vec2(row_sums[i / 4][i % 4], row_deltas[i / 4][i % 4]); }

void keep_row_numbers(uint i, vec2 numbers) {
    row_sums[i / 4][i % 4] = numbers.x;
    row_deltas[i / 4][i % 4] = numbers.y;
}

shared float largest_found[WORKGROUP_SIZE];

// The deltas' dispatch has left, of each of its workgroups, the largest sum of magnitudes of a row of d_output, and whose rows those were.
// A gradient of a weight less delta is at most twice that times the largest element of V.
void find_largest(uint batch, uint kv_head) {
#ifndef BFLOAT16
    float largest = 0.0;
    for (uint i = lane(); i < push.first_row; i += WORKGROUP_SIZE) {
        bool own = floatBitsToUint(carries[carry_element(2 * i + 1)]) == batch * parameters.kv_heads + kv_head;
        largest = max(largest, own ? carries[carry_element(2 * i)] : 0.0);
    }
    largest_found[lane()] = largest;
    barrier();
    for (uint i = 0; i < WORKGROUP_SIZE; ++i) largest = max(largest, largest_found[i]);
    if (largest > 1e-30 && largest < 1e30)
        gradients_larger = exp2(floor(log2(LARGEST_FACTOR / (2.0 * MOST_VALUE * largest))));
#endif
}

const uint FIRST_STEPS = 8 * FIRST_VECTORS / MATRIX_K, SECOND_STEPS = 8 * SECOND_VECTORS / MATRIX_K;
#define LOAD_OWN_MATRIX(matrix, element, pitch, step)                                                                  \
    coopMatLoad(matrix, tiles, (element) + first_own() * (pitch) + (step)*MATRIX_K / 8, pitch, ROWS_IN_MEMORY)
MATRIX_A first_in_registers[QUERY_IN_REGISTERS != 0 ? FIRST_STEPS : 1];
MATRIX_A second_in_registers[QUERY_IN_REGISTERS != 0 ? SECOND_STEPS : 1];

// All loads of an invocation are under way together: a store under a branch would take its load there.
#define STAGE_OWN(first_element, vectors, load)                                                                        \
    {                                                                                                                  \
        const uint turns = (OWN * (vectors) + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;                                    \
        uvec4 loaded[turns];                                                                                           \
        [[unroll]] for (uint turn = 0; turn < turns; ++turn) {                                                         \
            uint n = min(turn * WORKGROUP_SIZE + lane(), OWN * (vectors)-1);                                           \
            loaded[turn] = load(n / (vectors), n % (vectors)*8);                                                       \
        }                                                                                                              \
        [[unroll]] for (uint turn = 0; turn < turns; ++turn) {                                                         \
            uint n = turn * WORKGROUP_SIZE + lane();                                                                   \
            if (turns * WORKGROUP_SIZE == OWN * (vectors) || n < OWN * (vectors))                                      \
                tiles[(first_element) + n / (vectors) * ((vectors) + 1) + n % (vectors)] = loaded[turn];               \
        }                                                                                                              \
    }

void keep_own() {
    barrier();
    FOR_MATRICES(step, FIRST_STEPS) LOAD_OWN_MATRIX(first_in_registers[step], OWN_FIRST, FIRST_PITCH, step);
    FOR_MATRICES(step, SECOND_STEPS) LOAD_OWN_MATRIX(second_in_registers[step], OWN_SECOND, SECOND_PITCH, step);
    barrier(); // the last readers of what lies there are done
}

#define START_TILES(batch, kv_head)                                                                                    \
    if (BY_RANGE)                                                                                                      \
        for (uint i = lane(); i < NUMBERED; i += WORKGROUP_SIZE) counted[i / 4][i % 4] = float(i);                     \
    find_largest(batch, kv_head);                                                                                      \
    STAGE_OWN(OWN_FIRST, FIRST_VECTORS, own_first)                                                                     \
    STAGE_OWN(OWN_SECOND, SECOND_VECTORS, own_second)                                                                  \
    if (QUERY_IN_REGISTERS != 0) keep_own();

// The vectors of the tile that passes by next: those of two neighbours each, in whose pairs the sums want them.
const uint FIRST_PAIRS = PASSING / 2 * FIRST_VECTORS, SECOND_PAIRS = PASSING / 2 * SECOND_VECTORS;
const uint FIRST_OF_LANE = (FIRST_PAIRS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
const uint SECOND_OF_LANE = (SECOND_PAIRS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
uvec4 ahead_first[2 * FIRST_OF_LANE], ahead_second[2 * SECOND_OF_LANE];

// Neighbouring invocations have neighbouring pairs: along the dims these lie in other banks.
const uint PAIRS = PASSING / 2;
#define FOR_PAIRS(turn, n, pair, vector, pairs, of_lane)                                                               \
    [[unroll]] for (uint turn = 0, n = lane(), pair = n % PAIRS, vector = n / PAIRS; turn < (of_lane);                 \
                    ++turn, n += WORKGROUP_SIZE, pair = n % PAIRS,                                                     \
                    vector = n / PAIRS) if ((pairs) % WORKGROUP_SIZE == 0 || n < (pairs))

#define LOAD_AHEAD                                                                                                     \
    load_numbers();                                                                                                    \
    FOR_PAIRS(turn, n, pair, vector, FIRST_PAIRS, FIRST_OF_LANE) {                                                     \
        ahead_first[2 * turn] = passing_first(2 * pair, 8 * vector);                                                   \
        ahead_first[2 * turn + 1] = passing_first(2 * pair + 1, 8 * vector);                                           \
    }                                                                                                                  \
    FOR_PAIRS(turn, n, pair, vector, SECOND_PAIRS, SECOND_OF_LANE) {                                                   \
        ahead_second[2 * turn] = passing_second(2 * pair, 8 * vector);                                                 \
        ahead_second[2 * turn + 1] = passing_second(2 * pair + 1, 8 * vector);                                         \
    }

void put_rows() {
    FOR_PAIRS(turn, n, pair, vector, FIRST_PAIRS, FIRST_OF_LANE) {
        tiles[PASSED + 2 * pair * FIRST_PITCH + vector] = ahead_first[2 * turn];
        tiles[PASSED + (2 * pair + 1) * FIRST_PITCH + vector] = ahead_first[2 * turn + 1];
    }
    FOR_PAIRS(turn, n, pair, vector, SECOND_PAIRS, SECOND_OF_LANE) {
        tiles[PASSED_SECOND + 2 * pair * SECOND_PITCH + vector] = ahead_second[2 * turn];
        tiles[PASSED_SECOND + (2 * pair + 1) * SECOND_PITCH + vector] = ahead_second[2 * turn + 1];
    }
}

// What a factor of 0 does not hide.
uvec4 finite_elements(uvec4 words) {
    [[unroll]] for (uint i = 0; i < 4; ++i) words[i] &= ~(special_elements(words[i], CARRIES_INFINITE) * 0xffffu);
    return words;
}

// Eight dims of two neighbours: a word has the same dim of both. Where some are hidden, elements that are not finite count as 0: those
// that are seen have made the gradients of their scores no numbers.
void put_pair(uint summed, uint pair, uint vector, uvec4 first, uvec4 second, bool all_visible) {
    if (!all_visible) {
        first = finite_elements(first);
        second = finite_elements(second);
    }
    uvec4 even = first & 0xffffu | second << 16, odd = first >> 16 | second & 0xffff0000u;
    uint at = summed + 8 * vector * SUM_PITCH + pair / 4;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        tiles[at + 2 * i * SUM_PITCH][pair % 4] = even[i];
        tiles[at + (2 * i + 1) * SUM_PITCH][pair % 4] = odd[i];
    }
}

void put_summed(bool all_visible) {
    FOR_PAIRS(turn, n, pair, vector, FIRST_PAIRS, FIRST_OF_LANE)
    put_pair(PASSED, pair, vector, ahead_first[2 * turn], ahead_first[2 * turn + 1], all_visible);
#ifdef OF_KEYS
    FOR_PAIRS(turn, n, pair, vector, SECOND_PAIRS, SECOND_OF_LANE)
    put_pair(SUMMED_SECOND, pair, vector, ahead_second[2 * turn], ahead_second[2 * turn + 1], all_visible);
#endif
}

SUMS scores_of_tile[PASSING_TILES], gradients_of_tile[PASSING_TILES];

#define MULTIPLY(products, in_registers, own_element, passing_element, steps, pitch)                                   \
    FOR_MATRICES(k, PASSING_TILES) products[k] = ZEROS;                                                                \
    FOR_MATRICES(step, steps) {                                                                                        \
        MATRIX_A own;                                                                                                  \
        if (QUERY_IN_REGISTERS != 0)                                                                                   \
            own = in_registers[step];                                                                                  \
        else                                                                                                           \
            LOAD_OWN_MATRIX(own, own_element, pitch, step);                                                            \
        FOR_MATRICES(k, PASSING_TILES) {                                                                               \
            MATRIX_B passing;                                                                                          \
            coopMatLoad(passing, tiles, (passing_element) + k * MATRIX_N * (pitch) + step * MATRIX_K / 8, pitch,       \
                        COLUMNS_IN_MEMORY);                                                                            \
            products[k] = coopMatMulAdd(own, passing, products[k]);                                                    \
        }                                                                                                              \
    }

// Numbers of own ones, each column the same, and of those that pass by, each row the same: a stride of 0.
#define LOAD_OWN(matrix, numbers) coopMatLoad(matrix, numbers, first_own() / 4, 0, COLUMNS_IN_MEMORY)
#define LOAD_PASSING(matrix, numbers, k) coopMatLoad(matrix, numbers, (k)*MATRIX_N / 4, 0, ROWS_IN_MEMORY)
#ifdef OF_KEYS
#define LOAD_ROWS(matrix, numbers, k) LOAD_PASSING(matrix, numbers, k)
#define LOAD_KEYS(matrix, k) LOAD_OWN(matrix, counted)
#else
#define LOAD_ROWS(matrix, numbers, k) LOAD_OWN(matrix, numbers)
#define LOAD_KEYS(matrix, k) LOAD_PASSING(matrix, counted, k)
#endif

void finish_elements(uint k) {
    SUMS log_sums, deltas_of_rows;
    LOAD_ROWS(log_sums, row_sums, k);
    LOAD_ROWS(deltas_of_rows, row_deltas, k);
    FOR_ELEMENTS(i, log_sums) {
        vec2 finished = finish_plain(parameters.scale_log2 * scores_of_tile[k][i], gradients_of_tile[k][i],
                                     vec2(log_sums[i], deltas_of_rows[i]));
        scores_of_tile[k][i] = WEIGHTS_LARGER * finished.x;
        gradients_of_tile[k][i] = gradients_larger * finished.y;
    }
}

// The first key of the tile, of own ones or of those that pass by: see row_begins.
void hide_elements(uint k, float first_key) {
    SUMS begins, ends, keys_of_matrix;
    LOAD_ROWS(begins, row_begins, k);
    LOAD_ROWS(ends, row_ends, k);
    LOAD_KEYS(keys_of_matrix, k);
    FOR_ELEMENTS(i, begins) {
        float key = first_key + keys_of_matrix[i];
        bool seen = key >= begins[i] && key < ends[i];
        scores_of_tile[k][i] = seen ? scores_of_tile[k][i] : 0.0;
        gradients_of_tile[k][i] = seen ? gradients_of_tile[k][i] : 0.0;
    }
}

// In registers, whatever layout the matrices have there.
void finish_matrices(bool all_visible) {
    FOR_MATRICES(k, PASSING_TILES) {
        finish_elements(k);
        if (!all_visible) hide_elements(k, float(first_key_of_tile()));
        ROUNDED_SUMS weights, score_gradients;
        ROUND_MATRIX(weights, scores_of_tile[k]);
        ROUND_MATRIX(score_gradients, gradients_of_tile[k]);
        coopMatStore(weights, tiles, weights_at() + k * MATRIX_N / 8, WEIGHT_PITCH, ROWS_IN_MEMORY);
        coopMatStore(score_gradients, tiles, score_gradients_at() + k * MATRIX_N / 8, WEIGHT_PITCH, ROWS_IN_MEMORY);
    }
}

const uint MOST_RANGED_KEYS = 1u << 24; // f32 counts so far

// Rounded to nearest, as packHalf2x16 need not.
uint pack_factors(vec2 numbers) {
#if defined(BFLOAT16) || defined(EMULATED_SUBGROUPS)
    return pack_elements(numbers);
#else
    return packFloat2x16(f16vec2(numbers));
#endif
}

// Masked: one pair after the other, in place in the strip: the masks stand there once. An invocation keeps what it has finished until all
// of the strip is read.
const uint PAIRS_OF_LANE = MATRIX_M * PASSING / 2 / SUBGROUP_SIZE;
void finish_strip(bool all_visible) {
    FOR_MATRICES(k, PASSING_TILES) {
        coopMatStore(scores_of_tile[k], tiles, strip() + k * MATRIX_N / 4, SCORE_PITCH, ROWS_IN_MEMORY);
        coopMatStore(gradients_of_tile[k], tiles, strip() + MATRIX_M * SCORE_PITCH + k * MATRIX_N / 4, SCORE_PITCH,
                     ROWS_IN_MEMORY);
    }
    subgroupBarrier();
    uvec2 finished[PAIRS_OF_LANE];
    [[dont_unroll]] for (uint turn = 0; turn < PAIRS_OF_LANE; ++turn) {
        uint n = turn * SUBGROUP_SIZE + subgroup_lane(), own = n / (PASSING / 2), pair = n % (PASSING / 2);
        uint at = strip() + own * SCORE_PITCH + pair / 2;
        vec2 weights, score_gradients;
        [[dont_unroll]] for (uint i = 0; i < 2; ++i) {
            uint passing = 2 * pair + i;
            float product = parameters.scale_log2 * uintBitsToFloat(tiles[at][passing % 4]);
            float gradient = uintBitsToFloat(tiles[at + MATRIX_M * SCORE_PITCH][passing % 4]);
            vec2 numbers = finish_pair(first_own() + own, passing, product, gradient, all_visible);
            weights = vec2(weights.y, WEIGHTS_LARGER * numbers.x);
            score_gradients = vec2(score_gradients.y, gradients_larger * numbers.y);
        }
        uvec2 packed = uvec2(pack_factors(weights), pack_factors(score_gradients));
        [[unroll]] for (uint j = 0; j + 1 < PAIRS_OF_LANE; ++j) finished[j] = finished[j + 1];
        finished[PAIRS_OF_LANE - 1] = packed;
    }
    subgroupBarrier();
    [[unroll]] for (uint turn = 0; turn < PAIRS_OF_LANE; ++turn) {
        uint n = turn * SUBGROUP_SIZE + subgroup_lane(), own = n / (PASSING / 2), pair = n % (PASSING / 2);
        tiles[weights_at() + own * WEIGHT_PITCH + pair / 4][pair % 4] = finished[turn].x;
        tiles[score_gradients_at() + own * WEIGHT_PITCH + pair / 4][pair % 4] = finished[turn].y;
    }
}

// Of the tile whose vectors are in registers. Before: first_key_of_tile; find_passing, whether there is another tile, which it makes the one that passes by;
// load_numbers and keep_numbers, of the rows of the tile; add_sums.
#define PASS_TILE(more, all_visible)                                                                                   \
    {                                                                                                                  \
        put_rows();                                                                                                    \
        keep_numbers();                                                                                                \
        barrier();                                                                                                     \
        MULTIPLY(scores_of_tile, first_in_registers, OWN_FIRST, PASSED, FIRST_STEPS, FIRST_PITCH)                      \
        MULTIPLY(gradients_of_tile, second_in_registers, OWN_SECOND, PASSED_SECOND, SECOND_STEPS, SECOND_PITCH)        \
        bool visible = all_visible;                                                                                    \
        if (is_plain(visible) || (BY_RANGE && parameters.kv_len < MOST_RANGED_KEYS))                                   \
            finish_matrices(visible);                                                                                  \
        else                                                                                                           \
            finish_strip(visible);                                                                                     \
        barrier(); /* the rows' last readers are done */                                                               \
        put_summed(visible);                                                                                           \
        more = find_passing();                                                                                         \
        LOAD_AHEAD /* once more of the last one: no load is under a branch */                                          \
        barrier();                                                                                                     \
        add_sums(visible);                                                                                             \
        barrier(); /* the last readers of what passed by are done */                                                   \
    }

// Adds factors, of the subgroup, times what passes by.
#define ADD_PRODUCTS(sums, blocks, factors, summed_element)                                                            \
    FOR_MATRICES(step, PASSING / MATRIX_K) {                                                                           \
        MATRIX_A factor;                                                                                               \
        coopMatLoad(factor, tiles, factors() + step * MATRIX_K / 8, WEIGHT_PITCH, ROWS_IN_MEMORY);                     \
        FOR_MATRICES(t, blocks) {                                                                                      \
            MATRIX_B summed;                                                                                           \
            coopMatLoad(summed, tiles, (summed_element) + t * MATRIX_N * SUM_PITCH + step * MATRIX_K / 8, SUM_PITCH,   \
                        COLUMNS_IN_MEMORY);                                                                            \
            sums[t] = coopMatMulAdd(factor, summed, sums[t]);                                                          \
        }                                                                                                              \
    }
#define ADD_FIRST(sums, blocks, factors, all_visible) ADD_PRODUCTS(sums, blocks, factors, PASSED)
#define ADD_SECOND(sums, blocks, factors, all_visible) ADD_PRODUCTS(sums, blocks, factors, SUMMED_SECOND)
#define WEIGHTS weights_at
#define SCORE_GRADIENTS score_gradients_at

#define DECLARE_SUMS(sums, blocks) SUMS sums[blocks];
#define START_SUMS(sums, blocks, carried, dims) FOR_MATRICES(t, blocks) sums[t] = ZEROS;

// A matrix after the other, through the subgroup's strip. store: of an own one, from a dim on, four.
#define STORE_SUMS(sums, blocks, store)                                                                                \
    FOR_MATRICES(t, blocks) {                                                                                          \
        const uint pitch = MATRIX_N / 4;                                                                               \
        subgroupBarrier(); /* the strip's last readers are done */                                                     \
        coopMatStore(sums[t], tiles, strip(), pitch, ROWS_IN_MEMORY);                                                  \
        subgroupBarrier();                                                                                             \
        [[dont_unroll]] for (uint n = subgroup_lane(); n < MATRIX_M * pitch; n += SUBGROUP_SIZE)                       \
            store(first_own() + n / pitch, t * MATRIX_N + 4 * (n % pitch), uintBitsToFloat(tiles[strip() + n]));       \
    }

#endif
