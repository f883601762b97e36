// A query row's whole attention key by key, slow and careful: what the fast path falls back to where a hidden key's value
// is not a number. And how every row of this kernel ends.
#ifndef CAREFUL_ROW_GLSL
#define CAREFUL_ROW_GLSL

#include "attention/key_walk.glsl"
#include "attention/output.glsl"
#include "attention/query.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"
#include "cpu/addressed_keys.glsl"

// Loops over head dims are kept as loops: unrolled, a CPU driver compiles them for many seconds.
const uint QUERY_BLOCKS = HEAD_DIM / 4;
const uint UNROLLED = BLOCKS_OF_CAREFUL_ITERATION;

// With room for whole iterations, which repeat the last block: in query for nothing.
vec4 query[(QUERY_BLOCKS + UNROLLED - 1) / UNROLLED * UNROLLED];
vec4 accumulator[(VALUE_BLOCKS + UNROLLED - 1) / UNROLLED * UNROLLED];

void load_query_row(Row row) {
    uint element = query_element(row);
    [[dont_unroll]] for (uint block = 0; block < QUERY_BLOCKS; ++block) query[block] =
        parameters.scale_log2 * load_query_block(element, block);
    for (uint block = QUERY_BLOCKS; block < query.length(); ++block) query[block] = vec4(0);
}

// Q K^T of the row and a key.
float dot_key(uvec2 address) {
    float sum = 0.0;
    [[dont_unroll]] for (uint first = 0; first < QUERY_BLOCKS; first += UNROLLED)
        [[unroll]] for (uint i = 0; i < UNROLLED; ++i) sum +=
        dot(query[first + i], load_own_block(ADDRESSED_KEY_FORMAT, address, min(first + i, QUERY_BLOCKS - 1)));
    return sum;
}

void attend_key(Row row, KeyTile tile, inout SoftmaxState state) {
    float product = addressed_key_scale(row, key_of_slot(row, tile.first)) * dot_key(key_address(row, tile.first));
    float score = score_key(product, row, tile.first, tile);
    if (score == HIDDEN) return; // its value is not looked at, whatever it is
    float maximum = max(state.maximum, score);
    float rescale = exp2(state.maximum - maximum);
    float weight = exp2(score - maximum);
    state = SoftmaxState(maximum, state.sum * rescale + weight);
    uvec2 address = value_address(row, tile.first);
    float scaled_weight = weight * addressed_value_scale(row, key_of_slot(row, tile.first));
    [[dont_unroll]] for (uint first = 0; first < VALUE_BLOCKS; first += UNROLLED)
        [[unroll]] for (uint i = 0; i < UNROLLED; ++i) accumulator[first + i] =
            rescale * accumulator[first + i] +
            scaled_weight * load_own_block(ADDRESSED_VALUE_FORMAT, address, min(first + i, VALUE_BLOCKS - 1));
}

// From the state that waits in scores, or from nothing.
SoftmaxState start_row(Row row, uint part) {
    uint element = state_element(row, part);
    [[dont_unroll]] for (uint block = 0; block < VALUE_BLOCKS; ++block) {
        accumulator[block] = vec4(0);
        if (resumes()) accumulator[block] = load_state_block(element, block);
    }
    if (!resumes()) return softmax_empty();
    return load_state(element);
}

void store_row(Row row, float scale) {
    uint element = output_element(row);
    [[dont_unroll]] for (uint dim = 0; dim < V_HEAD_DIM; dim += 2) {
        vec4 block = modify_output(accumulator[dim / 4] * scale, row, dim / 4 * 4);
        store_output_pair(element + dim * OUTPUT_DIM_STRIDE, dim % 4 == 0 ? block.xy : block.zw);
    }
}

void leave_state(SoftmaxState state, uint element) {
    store_state(element, state);
    [[dont_unroll]] for (uint block = 0; block < VALUE_BLOCKS; ++block)
        store_state_block(element, 4 * block, accumulator[block]);
}

// The row's keys are all attended, or all of a part's: to the output, or to where the state waits.
void finish_row(SoftmaxState state, Row row, uint part) {
    if (leaves_states()) {
        leave_state(state, state_element(row, part));
        return;
    }
    float rescale = softmax_denominator_scale(state, row);
    store_row(row, normaliser_of(state, rescale));
    store_log_sum_exp(state, row);
}

// All of it over the walk's keys, to the output or back to scores.
void attend_row(Row row, uint part, KeyWalk walk) {
    load_query_row(row);
    SoftmaxState state = start_row(row, part);
    for (; next_tile(walk, 1); pass_tile(walk, 1))
        attend_key(row, KeyTile(Slot(walk.slots.begin), walk.slots.end, false), state);
    finish_row(state, row, part);
}

#endif
