// Joins the states that the parts of each query row's keys left in scores: output and log_sum_exp of all their keys.
// The sum over parts runs in their order, so the same call gives the same bits.
//
// states in scores (see attention/states.glsl) -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (Lq, Hq, B), one workgroup a row; each invocation joins blocks of four elements, WORKGROUP_SIZE apart.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "attention/output.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"

SoftmaxState join_states(uint first) {
    SoftmaxState all = softmax_empty();
    for (uint part = 0; part < parts(); ++part) all.maximum = max(all.maximum, scores[first + part * STATE_SIZE]);
    for (uint part = 0; part < parts(); ++part) {
        uint element = first + part * STATE_SIZE;
        all.sum += scores[element + 1] * exp2(scores[element] - all.maximum);
    }
    return all;
}

vec4 join_block(uint first, uint block, float maximum) {
    vec4 sum = vec4(0);
    for (uint part = 0; part < parts(); ++part) {
        uint element = first + part * STATE_SIZE;
        sum += exp2(scores[element] - maximum) * load_state_block(element, block);
    }
    return sum;
}

void main() {
    Row row = row_of_head(workgroup().z, workgroup().y, workgroup().x);
    if (row.position >= query_length(row.batch)) return;
    uint first = state_element(row, 0);
    SoftmaxState state = join_states(first);
    SoftmaxState with_sink = state;
    float rescale = softmax_denominator_scale(with_sink, row);
    float scale = with_sink.sum > 0.0 ? rescale / with_sink.sum : 0.0;
    uint element = output_element(row);
    for (uint block = gl_LocalInvocationID.x; block < VALUE_BLOCKS; block += WORKGROUP_SIZE)
        store_output_block(element, 4 * block, scale * join_block(first, block, state.maximum));
    if (gl_LocalInvocationID.x == 0) store_log_sum_exp(with_sink, row);
}
