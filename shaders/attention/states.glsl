// Where a query row's softmax state and running output wait, in scores, for the next dispatch or for merge_parts:
// maximum, sum, two unused, then the output in blocks of four.
#ifndef STATES_GLSL
#define STATES_GLSL

#include "attention/rows.glsl"
#include "attention/scores.glsl"
#include "attention/softmax.glsl"

const uint VALUE_BLOCKS = (V_HEAD_DIM + 3) / 4;
const uint STATE_HEADER = 4;
const uint STATE_SIZE = STATE_HEADER + 4 * VALUE_BLOCKS;

// Index of a row's states. Of packed queries [rows, Hq]: those of sequence s begin where its rows do, or at s * q_len where
// that is less.
uint state_row(Row row) {
    if (!has(FEATURE_CU_SEQLENS_Q)) return row_index(row);
    uint begin = packed_begin(row.batch);
    if (row.batch <= begin / parameters.q_len) begin = row.batch * parameters.q_len;
    return (begin + row.position) * parameters.kv_heads * GROUP + row.query_head;
}

uint state_element(Row row, uint part) {
    return base_bytes(BINDING_SCORES) / 4 + (state_row(row) * parts() + part) * STATE_SIZE;
}

// Whether this dispatch starts from states that an earlier one left.
bool resumes() { return has(FEATURE_SPLIT_KEYS) && push.first_key > 0; }

// Whether this dispatch leaves states, and no output.
bool leaves_states() { return has(FEATURE_PARTS) || (has(FEATURE_SPLIT_KEYS) && push.last_key < all_slots()); }

SoftmaxState load_state(uint element) { return SoftmaxState(scores[element], scores[element + 1]); }

void store_state(uint element, SoftmaxState state) {
    scores[element] = state.maximum;
    scores[element + 1] = state.sum;
}

vec4 load_state_block(uint element, uint block) {
    uint at = element + STATE_HEADER + 4 * block;
    return vec4(scores[at], scores[at + 1], scores[at + 2], scores[at + 3]);
}

// Dims `dim` (a multiple of 4) to `dim + 3` of the output, unless they are past the last block.
void store_state_block(uint element, uint dim, vec4 block) {
    if (dim < 4 * VALUE_BLOCKS) [[unroll]]
        for (uint i = 0; i < 4; ++i) scores[element + STATE_HEADER + dim + i] = block[i];
}

#endif
