// Attention of few query rows over many keys, for devices that run straight code fast (see flash_addresses.comp): an
// invocation owns ROWS rows and a stretch of keys of its own, so that neighbours fill the device's vectors however few
// the rows are. K and V are read once for all the rows, through device addresses, in their storage format.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> states of scores, PARTS for each row, for merge_parts
// grid: (PARTS / WORKGROUP_SIZE times the blocks of ROWS rows of a KV head's GROUP * Lq, Hkv, B). D and Dv are multiples
// of 4, K and V rows contiguous and aligned to four elements, quantised ones to whole words. No shared memory, barrier or subgroup operation.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

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

// for (uint d = 0; d < n; ++d) over the blocks of a row: written out, with Q and the sums in registers; or a loop, with both
// in memory, for compilers that take very long over the former.
#define BLOCKS_OF_TRIP(n) (UNROLL != 0 ? (n) : 1)
#define FOR_BLOCKS(d, n)                                                                                               \
    for (uint d##_first = 0; d##_first < (n); d##_first += BLOCKS_OF_TRIP(n))                                          \
    [[unroll]] for (uint d = d##_first; d < d##_first + BLOCKS_OF_TRIP(n); ++d)

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

void finish(Row row, const uint r, uint part, KeyRange range) {
    if (!sums_are_finite(r)) {
        // a weight of 0 hides no value that is not a number
        attend_row(row, part, range);
        return;
    }
    FOR_BLOCKS(d, V_BLOCKS) accumulator[d] = sums[r * V_BLOCKS + d];
    store_state(states[r], row, part, 0, VALUE_BLOCKS);
}

void main() {
    uint row_block = gl_WorkGroupID.x / (PARTS / WORKGROUP_SIZE);
    uint workgroup_part = gl_WorkGroupID.x % (PARTS / WORKGROUP_SIZE) * WORKGROUP_SIZE;
    uint part = workgroup_part + gl_LocalInvocationID.x;
    uint first_row = row_block * ROWS;
    uint rows = rows_of_kv_head(gl_WorkGroupID.z);
    uint last_row = max(min(first_row + ROWS, rows), 1) - 1;
    KeyRange all_keys = seen_by_any(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    KeyRange full = seen_by_all(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    KeyRange range = part_of_range(all_keys, part, PARTS, 1);
    KeyRange first_part = part_of_range(all_keys, 0, PARTS, 1); // none is longer
    uint steps = (first_part.end - first_part.begin + STEP - 1) / STEP;

    [[unroll]] for (uint r = 0; r < ROWS; ++r) load_row(row_of_tile(first_row, r), r);
    // the same for every invocation, so that a CPU driver jumps over what is not needed
    KeyRange last_part = part_of_range(all_keys, workgroup_part + WORKGROUP_SIZE - 1, PARTS, 1);
    bool masks = all_keys.begin < full.begin || all_keys.end > full.end ||
                 last_part.end - last_part.begin < first_part.end - first_part.begin;
    uint key = range.begin;
    uint step = 0;
    do { // see flash_addresses.comp
        [[unroll]] for (uint k = 0; k < STEP; ++k) {
            Row row = Row(gl_WorkGroupID.z, 0, gl_WorkGroupID.y, 0);
            uint index = min(key + k, parameters.kv_len - 1);
            key_rows[k] = key_address(row, index);
            value_rows[k] = value_address(row, index);
        }
        score_step();
        bias_step(first_row, key);
        hide_step(masks || step + 1 >= steps, first_row, key, 0, range.end);
        sum_step();
        key += STEP;
    } while (++step < steps);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) if (first_row + r < rows)
        finish(row_of_tile(first_row, r), r, part, range);
}
