// Unfused attention, third of three: output = weights V.
//
// scores (now weights) [B,Hq,Lq,Lk] f32, value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv]
// grid: (tiles of Lq * ceil(Dv / 2), Hq, B), two neighbouring dims an invocation: they may share a word
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#include "lib/attention_bindings.glsl"
#include "lib/work.glsl"

vec2 load_value_pair(uint element, bool second) {
    return vec2(load_value(VALUE_FORMAT, element), second ? load_value(VALUE_FORMAT, element + VALUE_DIM_STRIDE) : 0.0);
}

void main() {
    const uint pairs_of_row = (V_HEAD_DIM + 1) / 2;
    uint position = gl_GlobalInvocationID.x / pairs_of_row;
    if (position >= push.q_len) return;
    uint dim = gl_GlobalInvocationID.x % pairs_of_row * 2;
    bool second = dim + 1 < V_HEAD_DIM;
    Row row = row_of_head(gl_WorkGroupID.z, gl_WorkGroupID.y, position);
    uint weights = base_bytes(BINDING_SCORES) / 4 + row_index(row) * push.kv_len;

    vec2 sum = vec2(0);
    for (uint key = 0; key < push.kv_len; ++key) {
        float weight = scores[weights + key];
        // a hidden key adds nothing, even where its value is not a number
        if (weight != 0.0) sum += weight * load_value_pair(value_element(row, key) + dim * VALUE_DIM_STRIDE, second);
    }
    uint element = output_element(row) + dim * OUTPUT_DIM_STRIDE;
    if (second)
        store_output2(OUTPUT_FORMAT, has(FEATURE_OUTPUT_PAIRS), element, OUTPUT_DIM_STRIDE, sum);
    else
        store_output(OUTPUT_FORMAT, element, sum.x);
}
