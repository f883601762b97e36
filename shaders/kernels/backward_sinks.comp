// The gradients of sinks: of each head the sum over its queries of -exp(sink - log_sum_exp) * delta.
//
// sinks [Hq], log_sum_exp and deltas [B,Hq,Lq], of packed queries [Hq,total] -> d_sinks [Hq]
// grid: (Hq), a workgroup a head, whose invocations take every WORKGROUP_SIZE-th query of each sequence
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#define HAS_GRADIENTS

layout(local_size_x_id = 0) in;

#include "attention/gradients.glsl"

#define REDUCE_SIZE WORKGROUP_SIZE
#include "common/reduce.glsl"

layout(set = 0, binding = BINDING_SINKS, std430) readonly buffer SinksBuffer { float sinks[]; };
layout(set = 0, binding = BINDING_D_SINKS, std430) buffer DSinksBuffer { float d_sinks[]; };

float gradient_of(Row row, float sink_log2) {
    RowSum sum = load_row_sum(row);
    return sum.saw ? exp2(sink_log2 - sum.log2_sum) * load_delta(row) : 0.0;
}

void main() {
    uint head = workgroup().x;
    float sink_log2 = max(sinks[base_bytes(BINDING_SINKS) / 4 + head] * LOG2_E, HIDDEN), sum = 0.0;
    for (uint batch = 0; batch < parameters.sequences; ++batch)
        for (uint position = gl_LocalInvocationID.x; position < query_length(batch); position += WORKGROUP_SIZE)
            sum += gradient_of(row_of_head(batch, head, position), sink_log2);
    float gradient = -reduce_sum(sum);
    if (gl_LocalInvocationID.x == 0) d_sinks[base_bytes(BINDING_D_SINKS) / 4 + head] = gradient;
}
