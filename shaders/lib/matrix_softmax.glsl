// The online softmax between the two products of coopmat, through shared memory: whatever layout the matrices have in
// registers. Invocations that are neighbours share a query row; the scores of a row lie one after the other, and its
// weights, half as wide, take their place.
// After lib/matrix_rows.glsl, lib/dropout.glsl.

const uint PAIRS_OF_LANE = KEYS_OF_TILE / 2 / LANES_OF_TILE_ROW;
const uint SCORE_PITCH = KEYS_OF_TILE + 4;

shared uint score_tile[TILE_ROWS * SCORE_PITCH];

uint key_of_pair(uint pair) { return 2 * (lane_of_row() + pair * LANES_OF_TILE_ROW); }

void start_rows() { [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) states[r] = softmax_empty(); }

// Softcap, ALiBi and the masks; keys behind the end are hidden. In shared memory, where a loop finds each score by its
// number: unrolled, the masks' code stands there once a key.
void finish_scores(uint tile_row, uint first_key, uint end, bool all_visible) {
    if (all_visible && !has(FEATURE_SOFTCAP) && !has(FEATURE_ALIBI)) return;
    Row row = row_of_tile(tile_row);
    [[dont_unroll]] for (uint i = 0; i < 2 * PAIRS_OF_LANE; ++i) {
        uint key_of_tile = key_of_pair(i / 2) + i % 2;
        uint place = tile_row * SCORE_PITCH + key_of_tile;
        uint key = first_key + key_of_tile;
        float score = bias_score(cap_score(uintBitsToFloat(score_tile[place])), row, key);
        if (!all_visible) score = key < end ? mask_score(score, row, key) : HIDDEN;
        score_tile[place] = floatBitsToUint(score);
    }
}

float maximum_of_row(float value) {
    [[unroll]] for (uint step = 1; step < LANES_OF_TILE_ROW; step *= 2) value =
        max(value, subgroupShuffleXor(value, step));
    return value;
}

float sum_of_row(float value) {
    [[unroll]] for (uint step = 1; step < LANES_OF_TILE_ROW; step *= 2) value += subgroupShuffleXor(value, step);
    return value;
}

// Scores, in units of log 2, become weights; row_factors holds what earlier sums of each row are to be multiplied with.
void soften_rows(uint first_key) {
    vec2 pairs[ROWS_OF_LANE * PAIRS_OF_LANE];
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        float maximum = HIDDEN;
        [[unroll]] for (uint pair = 0; pair < PAIRS_OF_LANE; ++pair) {
            uint place = lane_row(r) * SCORE_PITCH + key_of_pair(pair);
            vec2 two = vec2(uintBitsToFloat(score_tile[place]), uintBitsToFloat(score_tile[place + 1]));
            pairs[r * PAIRS_OF_LANE + pair] = two;
            maximum = max(maximum, max(two.x, two.y));
        }
        maximum = maximum_of_row(maximum);
        float reference = follow_maximum(states[r].maximum, maximum);
        float factor = exp2(states[r].maximum - reference);
        states[r] = SoftmaxState(reference, states[r].sum * factor);
        if (lane_of_row() == 0) row_factors[lane_row(r)] = factor;
    }
    subgroupBarrier(); // the scores have been read
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        [[unroll]] for (uint pair = 0; pair < PAIRS_OF_LANE; ++pair) {
            vec2 weights = exp2(pairs[r * PAIRS_OF_LANE + pair] - states[r].maximum);
            states[r].sum += weights.x + weights.y;
            if (has(FEATURE_DROPOUT)) {
                Row row = row_of_tile(lane_row(r));
                uint key = first_key + key_of_pair(pair);
                weights *= vec2(dropout_factor(row, key), dropout_factor(row, key + 1));
            }
            score_tile[lane_row(r) * SCORE_PITCH + key_of_pair(pair) / 2] = pack_elements(weights);
        }
    }
}

// products: of this subgroup's keys and rows, whose scores they become. The sums of the output are rescaled where
// needed.
void soften_tile(uint first_key, uint end, bool all_visible) {
    FOR_MATRICES(k, KEY_TILES)
    coopMatStore(products[k] * parameters.scale_log2, score_tile, subgroup_row() * SCORE_PITCH + key_of_product(k),
                 SCORE_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
    synchronise_rows();
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) finish_scores(lane_row(r), first_key, end, all_visible);
    soften_rows(first_key);
    synchronise_rows();
    multiply_rows();
}

void load_weights(uint first_key, out WEIGHT_MATRIX weights) {
    coopMatLoad(weights, score_tile, subgroup_row() * SCORE_PITCH + first_key / 2, SCORE_PITCH,
                gl_CooperativeMatrixLayoutColumnMajor);
}

// The sums of all of a row's keys, in an order that never changes.
void finish_rows() { [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) states[r].sum = sum_of_row(states[r].sum); }
