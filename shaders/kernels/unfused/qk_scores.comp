// Unfused attention, first of three: scores = scale * Q K^T.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D] -> scores [B,Hq,Lq,Lk] f32; grid: (key tiles, Lq, B * Hq), one score an
// invocation
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "attention/key_value.glsl"
#include "attention/query.glsl"
#include "attention/rows.glsl"
#include "attention/scores.glsl"

float query_dot_key(uint query, uint key) {
    float sum = 0.0;
    uint dim = 0;
    [[dont_unroll]] for (; dim + 4 <= HEAD_DIM; dim += 4) sum +=
        dot(query_load4(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), query + dim * QUERY_DIM_STRIDE, QUERY_DIM_STRIDE),
            key_load4(KEY_FORMAT, has(FEATURE_KEY_PAIRS), key + dim * KEY_DIM_STRIDE, KEY_DIM_STRIDE));
    [[dont_unroll]] for (; dim < HEAD_DIM; ++dim) sum +=
        query_load(QUERY_FORMAT, query + dim * QUERY_DIM_STRIDE) * key_load(KEY_FORMAT, key + dim * KEY_DIM_STRIDE);
    return sum;
}

void main() {
    Slot slot = Slot(workgroup().x * WORKGROUP_SIZE + gl_LocalInvocationID.x);
    if (slot.number >= all_slots()) return;
    uint query_heads = parameters.kv_heads * GROUP;
    Row row = row_of_head(workgroup().z / query_heads, workgroup().z % query_heads, workgroup().y);
    float scale = parameters.scale_log2 * key_scale(row, key_of_slot(row, slot));
    scores[base_bytes(BINDING_SCORES) / 4 + row_index(row) * all_slots() + slot.number] =
        scale * query_dot_key(query_element(row), key_element(row, slot));
}
