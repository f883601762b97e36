// Attention with online softmax for devices whose invocations may each read K and V through an address of their own: an
// invocation owns ROWS rows and a stretch of keys of its own, so that neighbours fill the device's vectors however few
// the rows are; the workgroup, a subgroup, joins them. K and V are read once for all the rows, in their storage format.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (blocks of ROWS of a KV head's GROUP * Lq rows, times PARTS, Hkv, B). D and Dv are multiples of 4, K and V rows
// contiguous and aligned to four elements, quantised ones to whole words. No shared memory or barrier. Several PARTS
// leave states in scores for merge_parts.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;

#include "lib/attention_bindings.glsl"
#include "lib/sequence.glsl"
#include "lib/work.glsl"
#include "lib/mask.glsl"
#include "lib/score.glsl"
#include "lib/softmax.glsl"
#include "lib/states.glsl"
#include "lib/addressed_kv.glsl"
#include "lib/flash_row.glsl"

// Over the blocks of a row: written out, with Q and the sums in registers; or a loop, with both in memory, for
// compilers that take very long over the former.
#define TRIP_OF_BLOCKS(n) (UNROLL != 0 ? (n) : 1)
#define FOR_BLOCKS(i, n)                                                                                               \
    for (uint i##_first = 0; i##_first < (n); i##_first += TRIP_OF_BLOCKS(n))                                          \
    [[unroll]] for (uint i = i##_first; i < i##_first + TRIP_OF_BLOCKS(n); ++i)

const uint BLOCKS = HEAD_DIM / 4;
const uint V_BLOCKS = V_HEAD_DIM / 4;

Row row_of_tile(uint first_row, uint r) {
    uint rows = rows_of_kv_head(gl_WorkGroupID.z);
    return row_of_group(gl_WorkGroupID.z, gl_WorkGroupID.y, min(first_row + r, max(rows, 1) - 1));
}

#include "lib/key_step.glsl"

vec4 q[ROWS * BLOCKS];
uvec2 key_rows[STEP]; // addresses
uvec2 value_rows[STEP];

void load_row(Row row, const uint r) {
    uint element = query_element(row);
    FOR_BLOCKS(d, BLOCKS)
    q[r * BLOCKS + d] = parameters.scale_log2 * load_query4(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS),
                                                            element + 4 * d * QUERY_DIM_STRIDE, QUERY_DIM_STRIDE);
    FOR_BLOCKS(d, V_BLOCKS) sums[r * V_BLOCKS + d] = vec4(0);
    states[r] = softmax_empty();
}

void score_step() {
    [[unroll]] for (uint i = 0; i < ROWS * STEP; ++i) s[i] = 0.0;
    FOR_BLOCKS(d, BLOCKS) [[unroll]] for (uint k = 0; k < STEP; ++k) {
        vec4 key = load_own_block(KEY_FORMAT, key_rows[k], d);
        [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint r = 0; r < ROWS; ++r) s[r * STEP + k] =
            fma(q[r * BLOCKS + d][c], key[c], s[r * STEP + k]);
    }
}

void sum_step() {
    float rescales[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) rescales[r] = soften_row(r);
    FOR_BLOCKS(d, V_BLOCKS) {
        vec4 values[STEP];
        [[unroll]] for (uint k = 0; k < STEP; ++k) values[k] = load_own_block(VALUE_FORMAT, value_rows[k], d);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            vec4 sum = s[r * STEP] * values[0];
            [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint k = 1; k < STEP; ++k) sum[c] =
                fma(s[r * STEP + k], values[k][c], sum[c]);
            sums[r * V_BLOCKS + d] = fma(sums[r * V_BLOCKS + d], vec4(rescales[r]), sum);
        }
    }
}

// What the subgroup's invocations hold of the row, in accumulator and state.
SoftmaxState join_invocations(SoftmaxState state) {
    float maximum = subgroupMax(state.maximum);
    float rescale = exp2(state.maximum - maximum);
    [[dont_unroll]] for (uint block = 0; block < VALUE_BLOCKS; ++block) accumulator[block] =
        subgroupAdd(rescale * accumulator[block]);
    return SoftmaxState(maximum, subgroupAdd(rescale * state.sum));
}

void finish(Row row, const uint r, uint part, KeyRange own) {
    FOR_BLOCKS(d, V_BLOCKS) accumulator[d] = sums[r * V_BLOCKS + d];
    SoftmaxState state = states[r];
    // a weight of 0 hides no value that is not a number
    if (subgroupAny(!sums_are_finite(r))) state = attend_keys(row, part, own);
    state = join_invocations(state);
    if (subgroupElect()) finish_row(state, row, part, 0, VALUE_BLOCKS);
}

void main() {
    uint part = gl_WorkGroupID.x % PARTS;
    uint first_row = from_both_ends(gl_WorkGroupID.x / PARTS, gl_NumWorkGroups.x / PARTS) * ROWS;
    uint rows = rows_of_kv_head(gl_WorkGroupID.z);
    uint last_row = max(min(first_row + ROWS, rows), 1) - 1;
    KeyRange range = seen_by_any(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    KeyRange full = seen_by_all(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    range = part_of_range(range, part, PARTS, 1);
    if (first_row >= rows) range.end = range.begin;
    KeyRange own = part_of_range(range, gl_LocalInvocationID.x, WORKGROUP_SIZE, STEP);
    KeyRange first = part_of_range(range, 0, WORKGROUP_SIZE, STEP); // none is longer
    KeyRange last = part_of_range(range, WORKGROUP_SIZE - 1, WORKGROUP_SIZE, STEP);

    [[unroll]] for (uint r = 0; r < ROWS; ++r) load_row(row_of_tile(first_row, r), r);
    // the same for every invocation, so that a CPU driver jumps over what is not needed
    bool masks = range.begin < full.begin || range.end > full.end || last.end - last.begin < first.end - first.begin;
    uint steps = (first.end - first.begin + STEP - 1) / STEP;
    uint step = 0;
    uint key = own.begin;
    do { // see flash_addresses.comp
        [[unroll]] for (uint k = 0; k < STEP; ++k) {
            Row row = Row(gl_WorkGroupID.z, 0, gl_WorkGroupID.y, 0);
            uint index = min(key + k, parameters.kv_len - 1);
            key_rows[k] = key_address(row, index);
            value_rows[k] = value_address(row, index);
        }
        score_step();
        bias_step(first_row, key);
        hide_step(masks || step + 1 >= steps, first_row, key, 0, own.end);
        sum_step();
        key += STEP;
    } while (++step < steps);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) if (first_row + r < rows)
        finish(row_of_tile(first_row, r), r, part, own);
}
