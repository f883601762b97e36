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

// Parts whose loads are in flight at the same time.
const uint BATCH = 8;

// What a row's parts come to: their softmax, and one block of the output that belongs to it.
struct JoinedParts {
    SoftmaxState state;
    vec4 block;
};

// Past the last part of a batch the last part is loaded again, and not added.
void join_batch(uint first, uint first_part, uint block, inout JoinedParts all) {
    SoftmaxState states[BATCH];
    vec4 blocks[BATCH];
    [[unroll]] for (uint i = 0; i < BATCH; ++i) {
        uint element = first + min(first_part + i, parts() - 1) * STATE_SIZE;
        states[i] = load_state(element);
        blocks[i] = load_state_block(element, block);
    }
    float maximum = all.state.maximum;
    [[unroll]] for (uint i = 0; i < BATCH; ++i) maximum = max(maximum, states[i].maximum);
    float rescale = exp2(all.state.maximum - maximum);
    all = JoinedParts(SoftmaxState(maximum, all.state.sum * rescale), all.block * rescale);
    [[unroll]] for (uint i = 0; i < BATCH; ++i) if (first_part + i < parts()) {
        float weight = exp2(states[i].maximum - maximum);
        all.state.sum += states[i].sum * weight;
        all.block += blocks[i] * weight;
    }
}

JoinedParts join_parts(uint first, uint block) {
    JoinedParts all = JoinedParts(softmax_empty(), vec4(0));
    [[dont_unroll]] for (uint part = 0; part < parts(); part += BATCH) join_batch(first, part, block, all);
    return all;
}

void main() {
    Row row = row_of_head(workgroup().z, workgroup().y, workgroup().x);
    if (row.position >= query_length(row.batch)) return;
    uint first = state_element(row, 0);
    uint element = output_element(row);
    for (uint block = gl_LocalInvocationID.x; block < VALUE_BLOCKS; block += WORKGROUP_SIZE) {
        JoinedParts all = join_parts(first, block);
        SoftmaxState with_sink = all.state;
        float rescale = softmax_denominator_scale(with_sink, row);
        float scale = with_sink.sum > 0.0 ? rescale / with_sink.sum : 0.0;
        store_output_block(element, 4 * block, scale * all.block);
        if (block == 0) store_log_sum_exp(with_sink, row);
    }
}
