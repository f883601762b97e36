// The tiles of the backward pass on matrix units (VK_KHR_cooperative_matrix): f16 factors, or bf16 where BFLOAT16 is defined; f32 sums.
// Two subgroups share MATRIX_M of the tile's own ones: one multiplies their first vectors, the other their second ones, which it has in
// registers (QUERY_IN_REGISTERS) or in shared memory throughout; each then finishes half of the matrices. Of the sums a subgroup has some
// dims of all own ones, so that a matrix of what passes by is loaded once for all of them. What tiles.glsl says of own ones and those that
// pass by holds here, too. Of those that pass by an invocation has the next vectors in registers; they lie in shared memory twice, first
// as rows, for the products, then, in the same place, along their dims, for the sums.
#ifndef BACKWARD_MATRIX_TILES_GLSL
#define BACKWARD_MATRIX_TILES_GLSL

#include "common/matrices.glsl"

#ifdef ROLLED // as kernels/coopmat/matrices.glsl says
#define FOR_MATRICES(i, n) [[dont_unroll]] for (uint i = 0; i < (n); ++i)
#else
#define FOR_MATRICES(i, n) [[unroll]] for (uint i = 0; i < (n); ++i)
#endif

const uint SUBGROUPS = WORKGROUP_SIZE / SUBGROUP_SIZE; // an even number
const uint OWN_MATRICES = SUBGROUPS / 2;
const uint OWN = OWN_MATRICES * MATRIX_M;
const uint PASSING = KEYS_OF_TILE;
const uint PASSING_TILES = PASSING / MATRIX_N;

// In shared memory, in elements of sixteen bytes, with a gap behind each row. First and second vectors are equally long: zeros follow.
const uint UNIT = MATRIX_K > 8 ? MATRIX_K : 8; // dims
const uint MOST_DIMS = HEAD_DIM > V_HEAD_DIM ? HEAD_DIM : V_HEAD_DIM;
const uint VECTORS = (MOST_DIMS + UNIT - 1) / UNIT * UNIT / 8, PITCH = VECTORS + 1;
const uint STEPS = 8 * VECTORS / MATRIX_K;
// Along the dims, MATRIX_N of them a block, as many as whole vectors and whole matrices have; the second ones of keys alone. A gap behind
// each block: what neighbouring invocations write lies in other banks.
const uint BLOCKS = (8 * VECTORS + MATRIX_N - 1) / MATRIX_N;
const uint PAIRS = PASSING / 2;
const uint SUM_PITCH = PASSING / 8 + 1;
const uint BLOCK_SIZE = MATRIX_N * SUM_PITCH + 1;
const uint SUMMED_SIZE = BLOCKS * BLOCK_SIZE;
#ifdef OF_KEYS
const uint SUMMED_KINDS = 2;
#else
const uint SUMMED_KINDS = 1;
#endif

// Of own ones that two subgroups share: the products that they give each other, as f32, then weights and gradients of scores; in place of
// all of it, where masks are looked up, all products.
const uint GIVEN_PITCH = MATRIX_N / 4, SCORE_PITCH = PASSING / 4 + 1, WEIGHT_PITCH = PASSING / 8 + 1;
const uint GIVEN_SIZE = (PASSING_TILES + 1) / 2 * 2 * MATRIX_M * GIVEN_PITCH;
const uint SCORES_SIZE = MATRIX_M * SCORE_PITCH, WEIGHTS_SIZE = MATRIX_M * WEIGHT_PITCH;
const uint STRIP_SIZE =
    GIVEN_SIZE + 2 * WEIGHTS_SIZE > 2 * SCORES_SIZE ? GIVEN_SIZE + 2 * WEIGHTS_SIZE : 2 * SCORES_SIZE;

const uint OWN_KIND_SIZE = OWN * PITCH, OWN_SIZE = 2 * OWN_KIND_SIZE;
const uint STRIPS = QUERY_IN_REGISTERS != 0 ? 0 : OWN_SIZE;
const uint PASSED = STRIPS + OWN_MATRICES * STRIP_SIZE;
const uint PASSED_KIND_SIZE = PASSING * PITCH;
const uint ROWS_END = PASSED + 2 * PASSED_KIND_SIZE, SUMS_END = PASSED + SUMMED_KINDS * SUMMED_SIZE;
const uint TILES_SIZE = ROWS_END > SUMS_END ? ROWS_END : SUMS_END;
shared uvec4 tiles[TILES_SIZE > OWN_SIZE ? TILES_SIZE : OWN_SIZE];

uint lane() { return gl_LocalInvocationID.x; }
uint kind() { return subgroup_index() % 2; } // of the subgroup's products: 0 of first vectors, 1 of second ones
uint own_matrix() { return subgroup_index() / 2; }
uint first_own() { return own_matrix() * MATRIX_M; } // of the subgroup
uint strip_of(uint matrix) { return STRIPS + matrix * STRIP_SIZE; }
uint weights_of(uint matrix) { return strip_of(matrix) + GIVEN_SIZE; }
uint score_gradients_of(uint matrix) { return weights_of(matrix) + WEIGHTS_SIZE; }

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

MATRIX_A own_in_registers[QUERY_IN_REGISTERS != 0 ? STEPS : 1]; // of the subgroup's kind

#define LOAD_OWN_MATRIX(matrix, step)                                                                                  \
    coopMatLoad(matrix, tiles, kind() * OWN_KIND_SIZE + first_own() * PITCH + (step)*MATRIX_K / 8, PITCH,              \
                ROWS_IN_MEMORY)

// All loads of an invocation are under way together: a store under a branch would take its load there.
#define STAGE_OWN(first_element, load)                                                                                 \
    {                                                                                                                  \
        const uint turns = (OWN * VECTORS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;                                      \
        uvec4 loaded[turns];                                                                                           \
        [[unroll]] for (uint turn = 0; turn < turns; ++turn) {                                                         \
            uint n = min(turn * WORKGROUP_SIZE + lane(), OWN * VECTORS - 1);                                           \
            loaded[turn] = load(n / VECTORS, n % VECTORS * 8);                                                         \
        }                                                                                                              \
        [[unroll]] for (uint turn = 0; turn < turns; ++turn) {                                                         \
            uint n = turn * WORKGROUP_SIZE + lane();                                                                   \
            if (turns * WORKGROUP_SIZE == OWN * VECTORS || n < OWN * VECTORS)                                          \
                tiles[(first_element) + n / VECTORS * (VECTORS + 1) + n % VECTORS] = loaded[turn];                     \
        }                                                                                                              \
    }

void keep_own() {
    barrier();
    FOR_MATRICES(step, STEPS) LOAD_OWN_MATRIX(own_in_registers[step], step);
    barrier(); // the last readers of what lies there are done
}

#define START_TILES(batch, kv_head)                                                                                    \
    if (BY_RANGE)                                                                                                      \
        for (uint i = lane(); i < NUMBERED; i += WORKGROUP_SIZE) counted[i / 4][i % 4] = float(i);                     \
    find_largest(batch, kv_head);                                                                                      \
    STAGE_OWN(0, own_first)                                                                                            \
    STAGE_OWN(OWN_KIND_SIZE, own_second)                                                                               \
    if (QUERY_IN_REGISTERS != 0) keep_own();

// The vectors of the tile that passes by next: those of two neighbours each, in whose pairs the sums want them.
const uint ITEMS = PAIRS * VECTORS, ITEMS_OF_LANE = (ITEMS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
uvec4 ahead_first[2 * ITEMS_OF_LANE], ahead_second[2 * ITEMS_OF_LANE];

// Neighbouring invocations have four pairs, and of each as many vectors of different blocks as there are, up to eight: so what they write
// lies in other banks, as rows and along the dims.
const uint NEIGHBOURS = VECTORS % 8 == 0 ? 8 : VECTORS % 2 == 0 ? 2 : 1;
const uint VECTORS_OF_BLOCK = MATRIX_N / 8;
uint pair_of(uint n) { return n % 4 + n / (4 * NEIGHBOURS) % (PAIRS / 4) * 4; }
uint vector_of(uint n) {
    uint vector = n / (PAIRS * NEIGHBOURS) * NEIGHBOURS + n / 4 % NEIGHBOURS, block = vector % BLOCKS;
    return BLOCKS * VECTORS_OF_BLOCK != VECTORS
               ? vector
               : block * VECTORS_OF_BLOCK + (vector / BLOCKS + block) % VECTORS_OF_BLOCK;
}
#define FOR_ITEMS(turn)                                                                                                \
    [[unroll]] for (uint turn = 0, n = lane(); turn < ITEMS_OF_LANE;                                                   \
                    ++turn, n += WORKGROUP_SIZE) if (ITEMS % WORKGROUP_SIZE == 0 || n < ITEMS)

// Past the last item that one once more: no load is under a branch.
#define LOAD_KIND_AHEAD(ahead, load)                                                                                   \
    [[unroll]] for (uint turn = 0; turn < ITEMS_OF_LANE; ++turn) {                                                     \
        uint n = turn * WORKGROUP_SIZE + lane();                                                                       \
        if (ITEMS % WORKGROUP_SIZE != 0) n = min(n, ITEMS - 1);                                                        \
        uint pair = pair_of(n), dim = 8 * vector_of(n);                                                                \
        ahead[2 * turn] = load(2 * pair, dim);                                                                         \
        ahead[2 * turn + 1] = load(2 * pair + 1, dim);                                                                 \
    }

#define LOAD_AHEAD                                                                                                     \
    load_numbers();                                                                                                    \
    LOAD_KIND_AHEAD(ahead_first, passing_first)                                                                        \
    LOAD_KIND_AHEAD(ahead_second, passing_second)

void put_row_pair(uint kind_at, uint n, uvec4 first, uvec4 second) {
    uint at = kind_at + 2 * pair_of(n) * PITCH + vector_of(n);
    tiles[at] = first;
    tiles[at + PITCH] = second;
}

void put_rows() {
    FOR_ITEMS(turn) put_row_pair(PASSED, n, ahead_first[2 * turn], ahead_first[2 * turn + 1]);
    FOR_ITEMS(turn)
    put_row_pair(PASSED + PASSED_KIND_SIZE, n, ahead_second[2 * turn], ahead_second[2 * turn + 1]);
}

// What a factor of 0 does not hide.
uvec4 finite_elements(uvec4 words) {
    [[unroll]] for (uint i = 0; i < 4; ++i) words[i] &= ~(special_elements(words[i], CARRIES_INFINITE) * 0xffffu);
    return words;
}

// Eight dims of two neighbours: a word has the same dim of both. Where some are hidden, elements that are not finite count as 0: those
// that are seen have made the gradients of their scores no numbers.
void put_pair(uint kind_at, uint n, uvec4 first, uvec4 second, bool all_visible) {
    uint pair = pair_of(n), vector = vector_of(n);
    if (!all_visible) {
        first = finite_elements(first);
        second = finite_elements(second);
    }
    uvec4 even = first & 0xffffu | second << 16, odd = first >> 16 | second & 0xffff0000u;
    uint block = 8 * vector / MATRIX_N;
    uint at = kind_at + block * BLOCK_SIZE + (8 * vector - block * MATRIX_N) * SUM_PITCH + pair / 4;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        tiles[at + 2 * i * SUM_PITCH][pair % 4] = even[i];
        tiles[at + (2 * i + 1) * SUM_PITCH][pair % 4] = odd[i];
    }
}

void put_summed(bool all_visible) {
    FOR_ITEMS(turn) put_pair(PASSED, n, ahead_first[2 * turn], ahead_first[2 * turn + 1], all_visible);
#ifdef OF_KEYS
    FOR_ITEMS(turn)
    put_pair(PASSED + SUMMED_SIZE, n, ahead_second[2 * turn], ahead_second[2 * turn + 1], all_visible);
#endif
}

SUMS products[PASSING_TILES]; // of the subgroup's kind

void multiply() {
    uint passed = PASSED + kind() * PASSED_KIND_SIZE;
    FOR_MATRICES(k, PASSING_TILES) products[k] = ZEROS;
    FOR_MATRICES(step, STEPS) {
        MATRIX_A own;
        if (QUERY_IN_REGISTERS != 0)
            own = own_in_registers[step];
        else
            LOAD_OWN_MATRIX(own, step);
        FOR_MATRICES(k, PASSING_TILES) {
            MATRIX_B passing;
            coopMatLoad(passing, tiles, passed + k * MATRIX_N * PITCH + step * MATRIX_K / 8, PITCH, COLUMNS_IN_MEMORY);
            products[k] = coopMatMulAdd(own, passing, products[k]);
        }
    }
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

// Of two matrices a subgroup finishes the one whose number is its kind, and gives the other one away. Of the last one of an odd number both
// finish the same, and one of them stores it.
#define FOR_HALVES(i) FOR_MATRICES(i, (PASSING_TILES + 1) / 2)
#define IS_LAST_ALONE(i) (2 * (i) + 1 == PASSING_TILES)
uint given_at(uint i, uint of_kind) { return strip_of(own_matrix()) + (2 * i + of_kind) * MATRIX_M * GIVEN_PITCH; }

void give_half() {
    FOR_HALVES(i) {
        const uint second = IS_LAST_ALONE(i) ? 2 * i : 2 * i + 1;
        if (kind() == 0) {
            coopMatStore(products[second], tiles, given_at(i, 0), GIVEN_PITCH, ROWS_IN_MEMORY);
        } else {
            coopMatStore(products[2 * i], tiles, given_at(i, 1), GIVEN_PITCH, ROWS_IN_MEMORY);
        }
    }
}

SUMS scores, gradients; // of the matrix that is being finished

void finish_elements(uint k) {
    SUMS log_sums, deltas_of_rows;
    LOAD_ROWS(log_sums, row_sums, k);
    LOAD_ROWS(deltas_of_rows, row_deltas, k);
    FOR_ELEMENTS(e, log_sums) {
        vec2 finished =
            finish_plain(parameters.scale_log2 * scores[e], gradients[e], vec2(log_sums[e], deltas_of_rows[e]));
        scores[e] = WEIGHTS_LARGER * finished.x;
        gradients[e] = gradients_larger * finished.y;
    }
}

// The first key of the tile, of own ones or of those that pass by: see row_begins.
void hide_elements(uint k, float first_key) {
    SUMS begins, ends, keys_of_matrix;
    LOAD_ROWS(begins, row_begins, k);
    LOAD_ROWS(ends, row_ends, k);
    LOAD_KEYS(keys_of_matrix, k);
    FOR_ELEMENTS(e, begins) {
        float key = first_key + keys_of_matrix[e];
        bool seen = key >= begins[e] && key < ends[e];
        scores[e] = seen ? scores[e] : 0.0;
        gradients[e] = seen ? gradients[e] : 0.0;
    }
}

// In registers, whatever layout the matrices have there.
void finish_matrices(bool all_visible) {
    FOR_HALVES(i) {
        const uint second = IS_LAST_ALONE(i) ? 2 * i : 2 * i + 1;
        if (kind() == 0) {
            scores = products[2 * i];
            coopMatLoad(gradients, tiles, given_at(i, 1), GIVEN_PITCH, ROWS_IN_MEMORY);
        } else {
            coopMatLoad(scores, tiles, given_at(i, 0), GIVEN_PITCH, ROWS_IN_MEMORY);
            gradients = products[second];
        }
        uint k = kind() == 0 ? 2 * i : second;
        finish_elements(k);
        if (!all_visible) hide_elements(k, float(first_key_of_tile()));
        ROUNDED_SUMS weights, score_gradients;
        ROUND_MATRIX(weights, scores);
        ROUND_MATRIX(score_gradients, gradients);
        if (!IS_LAST_ALONE(i) || kind() == 0) {
            coopMatStore(weights, tiles, weights_of(own_matrix()) + k * MATRIX_N / 8, WEIGHT_PITCH, ROWS_IN_MEMORY);
            coopMatStore(score_gradients, tiles, score_gradients_of(own_matrix()) + k * MATRIX_N / 8, WEIGHT_PITCH,
                         ROWS_IN_MEMORY);
        }
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

void give_all() {
    FOR_MATRICES(k, PASSING_TILES)
    coopMatStore(products[k], tiles, strip_of(own_matrix()) + kind() * SCORES_SIZE + k * MATRIX_N / 4, SCORE_PITCH,
                 ROWS_IN_MEMORY);
}

// Masked: one pair after the other, in place in the strip: the masks stand there once. An invocation keeps what it has finished until all
// of the strip is read.
const uint PAIRS_OF_LANE = MATRIX_M * PAIRS / (2 * SUBGROUP_SIZE);
void finish_strip(bool all_visible) {
    uint strip = strip_of(own_matrix()), first = kind() * SUBGROUP_SIZE + subgroup_lane();
    uvec2 finished[PAIRS_OF_LANE];
    [[dont_unroll]] for (uint turn = 0; turn < PAIRS_OF_LANE; ++turn) {
        uint n = turn * 2 * SUBGROUP_SIZE + first, own = n / PAIRS, pair = n % PAIRS;
        uint at = strip + own * SCORE_PITCH + pair / 2;
        vec2 weights, score_gradients;
        [[dont_unroll]] for (uint i = 0; i < 2; ++i) {
            uint passing = 2 * pair + i;
            float product = parameters.scale_log2 * uintBitsToFloat(tiles[at][passing % 4]);
            float gradient = uintBitsToFloat(tiles[at + SCORES_SIZE][passing % 4]);
            vec2 numbers = finish_pair(first_own() + own, passing, product, gradient, all_visible);
            weights = vec2(weights.y, WEIGHTS_LARGER * numbers.x);
            score_gradients = vec2(score_gradients.y, gradients_larger * numbers.y);
        }
        uvec2 packed = uvec2(pack_factors(weights), pack_factors(score_gradients));
        [[unroll]] for (uint j = 0; j + 1 < PAIRS_OF_LANE; ++j) finished[j] = finished[j + 1];
        finished[PAIRS_OF_LANE - 1] = packed;
    }
    barrier();
    [[unroll]] for (uint turn = 0; turn < PAIRS_OF_LANE; ++turn) {
        uint n = turn * 2 * SUBGROUP_SIZE + first, own = n / PAIRS, pair = n % PAIRS;
        tiles[weights_of(own_matrix()) + own * WEIGHT_PITCH + pair / 4][pair % 4] = finished[turn].x;
        tiles[score_gradients_of(own_matrix()) + own * WEIGHT_PITCH + pair / 4][pair % 4] = finished[turn].y;
    }
}

// Of the tile whose vectors are in registers. Before: first_key_of_tile; find_passing, whether there is another tile, which it makes the one that passes by;
// load_numbers and keep_numbers, of the rows of the tile; add_sums.
#define PASS_TILE(more, all_visible)                                                                                   \
    {                                                                                                                  \
        put_rows();                                                                                                    \
        keep_numbers();                                                                                                \
        barrier();                                                                                                     \
        multiply();                                                                                                    \
        bool visible = all_visible;                                                                                    \
        bool by_matrices = is_plain(visible) || (BY_RANGE && parameters.kv_len < MOST_RANGED_KEYS);                    \
        if (by_matrices)                                                                                               \
            give_half();                                                                                               \
        else                                                                                                           \
            give_all();                                                                                                \
        barrier(); /* the rows' last readers are done */                                                               \
        put_summed(visible);                                                                                           \
        if (by_matrices)                                                                                               \
            finish_matrices(visible);                                                                                  \
        else                                                                                                           \
            finish_strip(visible);                                                                                     \
        more = find_passing();                                                                                         \
        LOAD_AHEAD /* once more of the last one: no load is under a branch */                                          \
        barrier();                                                                                                     \
        add_sums(visible);                                                                                             \
        barrier(); /* the last readers of what passed by are done */                                                   \
    }

// Which sums a subgroup has: of keys those of its kind, d_key's or d_value's.
#ifdef OF_KEYS
const uint SUM_PARTS = OWN_MATRICES;
uint sum_part() { return own_matrix(); }
uint factors_of(uint matrix) { return kind() == 0 ? score_gradients_of(matrix) : weights_of(matrix); }
uint summed() { return PASSED + kind() * SUMMED_SIZE; }
#else
const uint SUM_PARTS = SUBGROUPS;
uint sum_part() { return subgroup_index(); }
uint factors_of(uint matrix) { return score_gradients_of(matrix); }
uint summed() { return PASSED; }
#endif
const uint BLOCKS_OF_PART = (BLOCKS + SUM_PARTS - 1) / SUM_PARTS;
uint block_of_sums(uint t) { return sum_part() * BLOCKS_OF_PART + t; }

const uint SUMS_OF_SUBGROUP = OWN_MATRICES * BLOCKS_OF_PART;
SUMS sums[SUMS_OF_SUBGROUP];
#define DECLARE_SUMS(name, blocks)
#define START_SUMS(name, blocks, carried, dims) FOR_MATRICES(i, OWN_MATRICES *BLOCKS_OF_PART) sums[i] = ZEROS;
#define ADD_FIRST(name, blocks, factors, all_visible) add_products();

// Past the last block, that one once more, for nothing.
void add_products() {
    FOR_MATRICES(step, PASSING / MATRIX_K) {
        MATRIX_A factors[OWN_MATRICES];
        FOR_MATRICES(r, OWN_MATRICES)
        coopMatLoad(factors[r], tiles, factors_of(r) + step * MATRIX_K / 8, WEIGHT_PITCH, ROWS_IN_MEMORY);
        FOR_MATRICES(t, BLOCKS_OF_PART) {
            uint block = BLOCKS % SUM_PARTS == 0 ? block_of_sums(t) : min(block_of_sums(t), BLOCKS - 1);
            MATRIX_B passed;
            coopMatLoad(passed, tiles, summed() + block * BLOCK_SIZE + step * MATRIX_K / 8, SUM_PITCH,
                        COLUMNS_IN_MEMORY);
            FOR_MATRICES(r, OWN_MATRICES)
            sums[r * BLOCKS_OF_PART + t] = coopMatMulAdd(factors[r], passed, sums[r * BLOCKS_OF_PART + t]);
        }
    }
}

// A matrix after the other, through a part of the strip: the first one is stored, and the next one takes its place, so that the code stands
// there once. store: of an own one, from a dim on, four.
#define STORE_SUMS(name, blocks, store)                                                                                \
    [[dont_unroll]] for (uint i = 0; i < SUMS_OF_SUBGROUP; ++i) {                                                      \
        uint at = strip_of(own_matrix()) + kind() * MATRIX_M * GIVEN_PITCH;                                            \
        subgroupBarrier(); /* the strip's last readers are done */                                                     \
        coopMatStore(sums[0], tiles, at, GIVEN_PITCH, ROWS_IN_MEMORY);                                                 \
        subgroupBarrier();                                                                                             \
        [[dont_unroll]] for (uint n = subgroup_lane(); n < MATRIX_M * GIVEN_PITCH; n += SUBGROUP_SIZE) store(          \
            i / BLOCKS_OF_PART * MATRIX_M + n / GIVEN_PITCH,                                                           \
            block_of_sums(i % BLOCKS_OF_PART) * MATRIX_N + 4 * (n % GIVEN_PITCH), uintBitsToFloat(tiles[at + n]));     \
        FOR_MATRICES(j, SUMS_OF_SUBGROUP - 1) sums[j] = sums[j + 1];                                                   \
    }

#endif
