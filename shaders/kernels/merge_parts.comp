// Joins the states that the parts of each query row's keys left in scores: output and log_sum_exp of all their keys.
// Sums run in the order of the parts, so the same call gives the same bits.
//
// states in scores (see attention/states.glsl) -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (Lq, Hq, B), one workgroup a row; packed queries as in attention/rows.glsl, in tiles of one row of one head. COLUMNS
// invocations share a block of four elements: each of them joins a run of the parts, so that the loads of all are in flight,
// and the first one joins their results.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "attention/output.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"

const uint BLOCKS_AT_ONCE = WORKGROUP_SIZE / COLUMNS;

shared vec2 run_states[COLUMNS > 1 ? WORKGROUP_SIZE : 1]; // maximum and sum
shared vec4 run_blocks[COLUMNS > 1 ? WORKGROUP_SIZE : 1];

// What a row's parts come to: their softmax, and one block of the output that belongs to it.
struct JoinedParts {
    SoftmaxState state;
    vec4 block;
};

// Past the end of a run the last part is loaded again, and not added.
void join_batch(uint first, uint first_part, uint end, uint block, inout JoinedParts all) {
    SoftmaxState states[PARTS_AT_ONCE];
    vec4 blocks[PARTS_AT_ONCE];
    [[unroll]] for (uint i = 0; i < PARTS_AT_ONCE; ++i) {
        uint element = first + min(first_part + i, end - 1) * STATE_SIZE;
        states[i] = load_state(element);
        blocks[i] = load_state_block(element, block);
    }
    float maximum = all.state.maximum;
    [[unroll]] for (uint i = 0; i < PARTS_AT_ONCE; ++i) maximum = max(maximum, states[i].maximum);
    float rescale = exp2(all.state.maximum - maximum);
    all = JoinedParts(SoftmaxState(maximum, all.state.sum * rescale), all.block * rescale);
    // No branch: compilers would load within it, part after part.
    [[unroll]] for (uint i = 0; i < PARTS_AT_ONCE; ++i) {
        float weight = exp2(states[i].maximum - maximum);
        bool is_within = first_part + i < end;
        all.state.sum = mix(all.state.sum, all.state.sum + states[i].sum * weight, is_within);
        all.block = mix(all.block, all.block + blocks[i] * weight, bvec4(is_within));
    }
}

// The parts of this invocation's column.
JoinedParts join_run(uint first, uint block) {
    JoinedParts all = JoinedParts(softmax_empty(), vec4(0));
    uint size = (parts() + COLUMNS - 1) / COLUMNS, begin = gl_LocalInvocationID.x / BLOCKS_AT_ONCE * size;
    uint end = min(begin + size, parts());
    [[dont_unroll]] for (uint part = begin; part < end; part += PARTS_AT_ONCE) join_batch(first, part, end, block, all);
    return all;
}

// What the columns came to; the first column's invocations need it.
JoinedParts join_columns(JoinedParts run) {
    if (COLUMNS == 1) return run;
    uint lane = gl_LocalInvocationID.x, at = lane % BLOCKS_AT_ONCE;
    barrier(); // the last block's readers are done
    run_states[lane] = vec2(run.state.maximum, run.state.sum);
    run_blocks[lane] = run.block;
    barrier();
    JoinedParts all = JoinedParts(softmax_empty(), vec4(0));
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) all.state.maximum =
        max(all.state.maximum, run_states[c * BLOCKS_AT_ONCE + at].x);
    [[unroll]] for (uint c = 0; c < COLUMNS; ++c) {
        float weight = exp2(run_states[c * BLOCKS_AT_ONCE + at].x - all.state.maximum);
        all.state.sum += run_states[c * BLOCKS_AT_ONCE + at].y * weight;
        all.block += run_blocks[c * BLOCKS_AT_ONCE + at] * weight;
    }
    return all;
}

void store_block(Row row, uint block, JoinedParts all) {
    SoftmaxState with_sink = all.state;
    float rescale = softmax_denominator_scale(with_sink, row);
    float scale = normaliser_of(with_sink, rescale);
    store_output_block(output_element(row), 4 * block, modify_output(scale * all.block, row, 4 * block));
    if (block == 0) store_log_sum_exp(with_sink, row);
}

void main() {
    SequenceTile position = sequence_tile(workgroup().x, 1, 1);
    Row row = row_of_head(position.batch, workgroup().y, position.index);
    if (row.position >= query_length(row.batch)) return;
    uint first = state_element(row, 0);
    for (uint begin = 0; begin < VALUE_BLOCKS; begin += BLOCKS_AT_ONCE) {
        uint block = begin + gl_LocalInvocationID.x % BLOCKS_AT_ONCE;
        JoinedParts all = join_columns(join_run(first, min(block, VALUE_BLOCKS - 1)));
        if (gl_LocalInvocationID.x < BLOCKS_AT_ONCE && block < VALUE_BLOCKS) store_block(row, block, all);
    }
}
