// Unfused attention, third of three: output = weights V.
//
// scores (now weights) [B,Hq,Lq,Lk] f32, value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv]
// grid: (tiles of Lq * ceil(Dv / 2), Hq, B), two neighbouring dims an invocation: they may share a word
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "attention/key_value.glsl"
#include "attention/output.glsl"
#include "attention/scores.glsl"

// weight * value of a slot's key; 0 where the key is hidden, even if its value is not a number, and beyond the last slot
vec2 weighted_pair(Row row, uint weights, Slot slot, uint dim, bool second) {
    if (slot.number >= all_slots()) return vec2(0);
    float weight = scores[weights + slot.number];
    if (weight == 0.0) return vec2(0);
    uint element = value_element(row, slot) + dim * VALUE_DIM_STRIDE;
    return weight * value_scale(row, key_of_slot(row, slot)) *
           vec2(value_load(VALUE_FORMAT, element), second ? value_load(VALUE_FORMAT, element + VALUE_DIM_STRIDE) : 0.0);
}

void main() {
    const uint pairs_of_row = (V_HEAD_DIM + 1) / 2;
    uint pair = workgroup().x * WORKGROUP_SIZE + gl_LocalInvocationID.x;
    uint position = pair / pairs_of_row;
    if (position >= parameters.q_len) return;
    uint dim = pair % pairs_of_row * 2;
    bool second = dim + 1 < V_HEAD_DIM;
    Row row = row_of_head(workgroup().z, workgroup().y, position);
    uint weights = base_bytes(BINDING_SCORES) / 4 + row_index(row) * all_slots();

    vec2 sum = vec2(0);
    // several keys an iteration: some drivers bound the iterations of a shader's loops
    for (Slot slot = Slot(0); slot.number < all_slots(); slot = advance(slot, KEYS_OF_UNFUSED_ITERATION))
        [[unroll]] for (uint i = 0; i < KEYS_OF_UNFUSED_ITERATION; ++i) sum +=
            weighted_pair(row, weights, advance(slot, i), dim, second);
    uint element = output_element(row) + dim * OUTPUT_DIM_STRIDE;
    if (second)
        store_output_pair(element, modify_output(sum, row, dim));
    else
        output_store(OUTPUT_FORMAT, element, modify_output(sum.x, row, dim));
}
