// Where a query row's softmax state and running output wait, in the buffer scores, for the next dispatch or for merge_parts, in
// elements of four numbers: maximum, sum and two unused, then the output's blocks.
#ifndef STATES_GLSL
#define STATES_GLSL

#include "attention/rows.glsl"
#include "attention/softmax.glsl"

layout(set = 0, binding = BINDING_SCORES, std430) buffer StatesBuffer { vec4 kept_states[]; };

const uint VALUE_BLOCKS = (V_HEAD_DIM + 3) / 4;
const uint STATE_SIZE = 1 + VALUE_BLOCKS; // elements

// Index of a row's states. Of packed queries [rows, Hq]: those of sequence s begin where its rows do, or at s * q_len where
// that is less.
uint state_row(Row row) {
    if (!has(FEATURE_CU_SEQLENS_Q)) return row_index(row);
    uint begin = packed_begin(row.batch);
    if (row.batch <= begin / parameters.q_len) begin = row.batch * parameters.q_len;
    return (begin + row.position) * parameters.kv_heads * GROUP + row.query_head;
}

uint state_element(Row row, uint part) {
    return base_bytes(BINDING_SCORES) / 16 + (state_row(row) * parts() + part) * STATE_SIZE;
}

// Whether this dispatch starts from states that an earlier one left.
bool resumes() { return has(FEATURE_SPLIT_KEYS) && push.first_key > 0; }

// Whether this dispatch leaves states, and no output.
bool leaves_states() { return has(FEATURE_PARTS) || (has(FEATURE_SPLIT_KEYS) && push.last_key < all_slots()); }

SoftmaxState load_state(uint element) {
    vec4 state = kept_states[element];
    return SoftmaxState(state.x, state.y);
}

void store_state(uint element, SoftmaxState state) { kept_states[element] = vec4(state.maximum, state.sum, 0, 0); }

vec4 load_state_block(uint element, uint block) { return kept_states[element + 1 + block]; }

// Dims `dim` (a multiple of 4) to `dim + 3` of the output, unless they are past the last block.
void store_state_block(uint element, uint dim, vec4 block) {
    if (dim < 4 * VALUE_BLOCKS) kept_states[element + 1 + dim / 4] = block;
}

#endif
