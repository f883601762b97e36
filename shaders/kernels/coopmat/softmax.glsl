// The online softmax between the two products of coopmat, through shared memory: whatever layout the matrices have in
// registers. Invocations that are neighbours share a query row; the scores of a row lie one after the other, and its
// weights, half as wide, take their place.
#ifndef COOPMAT_SOFTMAX_GLSL
#define COOPMAT_SOFTMAX_GLSL

#include "attention/dropout.glsl"
#include "attention/key_walk.glsl"
#include "attention/variant.glsl"
#include "kernels/coopmat/lanes.glsl"

const uint PAIRS_OF_LANE = KEYS_OF_TILE / 2 / LANES_OF_TILE_ROW;
const uint SCORE_PITCH = KEYS_OF_TILE + 4;

shared uint score_tile[TILE_ROWS * SCORE_PITCH];

uint key_of_pair(uint pair) { return 2 * (lane_of_row() + pair * LANES_OF_TILE_ROW); }

void start_rows() { [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) states[r] = softmax_empty(); }

// In shared memory, where a loop finds each score by its index: unrolled, the code of the masks would stand there once a
// key.
void finish_scores(uint tile_row, KeyTile tile) {
    if (tile.all_visible && !TRANSFORMS_SCORES) return;
    Row row = row_of_tile(rows, tile_row);
    [[dont_unroll]] for (uint i = 0; i < 2 * PAIRS_OF_LANE; ++i) {
        uint key_of_tile = key_of_pair(i / 2) + i % 2;
        uint at = tile_row * SCORE_PITCH + key_of_tile;
        float score = score_key(uintBitsToFloat(score_tile[at]), row, tile.first + key_of_tile, tile);
        score_tile[at] = floatBitsToUint(score);
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

// Scores become weights; row_factors holds what earlier sums of each row are to be multiplied with.
void apply_softmax_to_rows(KeyTile tile) {
    vec2 pairs[ROWS_OF_LANE * PAIRS_OF_LANE];
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        float maximum = HIDDEN;
        [[unroll]] for (uint pair = 0; pair < PAIRS_OF_LANE; ++pair) {
            uint at = lane_row(r) * SCORE_PITCH + key_of_pair(pair);
            vec2 two = vec2(uintBitsToFloat(score_tile[at]), uintBitsToFloat(score_tile[at + 1]));
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
                Row row = row_of_tile(rows, lane_row(r));
                uint key = tile.first + key_of_pair(pair);
                weights *= vec2(dropout_factor(row, key), dropout_factor(row, key + 1));
            }
            score_tile[lane_row(r) * SCORE_PITCH + key_of_pair(pair) / 2] = pack_elements(weights);
        }
    }
}

// products: of this subgroup's keys and rows, whose scores they become. The sums of the output are rescaled where
// needed.
void apply_softmax(KeyTile tile) {
    FOR_MATRICES(k, KEY_TILES)
    coopMatStore(products[k] * parameters.scale_log2, score_tile, subgroup_row() * SCORE_PITCH + key_of_product(k),
                 SCORE_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
    synchronise_rows();
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) finish_scores(lane_row(r), tile);
    apply_softmax_to_rows(tile);
    synchronise_rows();
    multiply_rows();
}

void load_weights(uint first_key, out WEIGHT_MATRIX weights) {
    coopMatLoad(weights, score_tile, subgroup_row() * SCORE_PITCH + first_key / 2, SCORE_PITCH,
                gl_CooperativeMatrixLayoutColumnMajor);
}

// The sums of all of a row's keys, in an order that never changes.
void finish_rows() { [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) states[r].sum = sum_of_row(states[r].sum); }

#endif
