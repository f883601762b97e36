// Attention with online softmax for devices that run straight code fast and pay dearly for shared memory and barriers:
// CPU drivers above all. K and V are read through device addresses that are the same for the whole workgroup, so that a
// CPU driver makes of each load one scalar that feeds a vector of rows.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (tiles of WORKGROUP_SIZE of a KV head's GROUP * Lq rows, times PARTS, Hkv, B); an invocation owns a row and
// takes STEP keys at a time. At the addresses: K and V, rows contiguous and aligned to four elements, quantised ones to
// whole words, keys addressed_begin .. addressed_end - 1, at least STEP of them; D and Dv are multiples of 4. No shared
// memory, barrier or subgroup operation. Long contexts take several dispatches and few rows several parts, as in
// flash.comp.
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

const uint BLOCKS = HEAD_DIM / 4;
const uint V_BLOCKS = V_HEAD_DIM / 4;

// Invocations beyond the last row repeat it and write nothing: they never return, see the loop.
Row row_of_tile(uint first_row, const uint r) {
    uint rows = rows_of_kv_head(gl_WorkGroupID.z);
    uint last_row = max(min(first_row + WORKGROUP_SIZE, rows), 1) - 1;
    return row_of_group(gl_WorkGroupID.z, gl_WorkGroupID.y, min(first_row + gl_LocalInvocationID.x, last_row));
}

#include "lib/key_step.glsl"

vec4 q[BLOCKS];

void load_row(Row row, uint part) {
    uint element = query_element(row);
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) q[d] =
        parameters.scale_log2 *
        load_query4(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), element + 4 * d * QUERY_DIM_STRIDE, QUERY_DIM_STRIDE);
    bool resumes = has(FEATURE_SPLIT_KEYS) && push.first_key > 0;
    uint saved = state_element(row, part);
    states[0] = softmax_empty();
    if (resumes) states[0] = SoftmaxState(scores[saved], scores[saved + 1]);
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) {
        uint at = saved + STATE_HEADER + 4 * d;
        sums[d] = vec4(0);
        if (resumes) sums[d] = vec4(scores[at], scores[at + 1], scores[at + 2], scores[at + 3]);
    }
}

// READS_AHEAD: a word of each cache line of the step's V is loaded while K is multiplied, and of the next step's K
// while V is, in the order in which they lie. The products take a line of every row, then the next of every row, which
// not every CPU foresees.
uint ahead = 0; // what was loaded so

// The share of rows of `blocks` blocks that belongs to turn number `turn` of `turns`.
void read_ahead(const uint format, uvec2 address, const uint row_bytes, const uint blocks, uint turn,
                const uint turns) {
    if (READS_AHEAD == 0) return;
    const uint line_bytes = 64;
    const uint lines = (bytes_of_blocks(format, blocks) + line_bytes - 1) / line_bytes; // of a row
    const uint share = (STEP * lines + turns - 1) / turns;
    [[unroll]] for (uint i = 0; i < share; ++i) {
        uint line = turn * share + i, byte = line / lines * row_bytes + line % lines * line_bytes;
        if (line < STEP * lines) ahead |= Words(address).values[byte / 4];
    }
}

void score_step(uvec2 address, uvec2 values) {
    float unscaled[STEP]; // sums of what is still to be scaled
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] = unscaled[k] = 0.0;
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
        read_ahead(ADDRESSED_VALUE_FORMAT, values, VALUE_ROW_BYTES, V_BLOCKS, d, BLOCKS);
        vec4 keys[STEP];
        [[unroll]] for (uint k = 0; k < STEP; ++k) keys[k] =
            load_uniform_block(ADDRESSED_KEY_FORMAT, address, k * KEY_ROW_BYTES, d);
        [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint k = 0; k < STEP; ++k) unscaled[k] =
            fma(q[d][c], keys[k][c], unscaled[k]);
        const bool ends_scale = is_quantised(ADDRESSED_KEY_FORMAT) && (d + 1) % BLOCKS_OF_SCALE == 0;
        [[unroll]] for (uint k = 0; k < STEP; ++k) if (ends_scale) {
            s[k] = fma(load_uniform_scale(ADDRESSED_KEY_FORMAT, address, k * KEY_ROW_BYTES, d), unscaled[k], s[k]);
            unscaled[k] = 0.0;
        }
    }
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] += unscaled[k];
}

void sum_step(uvec2 address, uvec2 next_keys, float rescale) {
    float weights[STEP]; // times the values' scales
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) {
        if (d % BLOCKS_OF_SCALE == 0) [[unroll]]
            for (uint k = 0; k < STEP; ++k)
                weights[k] = s[k] * load_uniform_scale(ADDRESSED_VALUE_FORMAT, address, k * VALUE_ROW_BYTES, d);
        read_ahead(ADDRESSED_KEY_FORMAT, next_keys, KEY_ROW_BYTES, BLOCKS, d, V_BLOCKS);
        vec4 values[STEP];
        [[unroll]] for (uint k = 0; k < STEP; ++k) values[k] =
            load_uniform_block(ADDRESSED_VALUE_FORMAT, address, k * VALUE_ROW_BYTES, d);
        // the step's own sum first: a long context then adds few numbers to a large one
        vec4 sum = weights[0] * values[0];
        [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint k = 1; k < STEP; ++k) sum[c] =
            fma(weights[k], values[k][c], sum[c]);
        sums[d] = fma(sums[d], vec4(rescale), sum);
    }
}

void finish(Row row, uint part, KeyRange range) {
    if (!sums_are_finite(0)) {
        // a weight of 0 hides no value that is not a number
        attend_row(row, part, range);
        return;
    }
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) accumulator[d] = sums[d];
    finish_row(states[0], row, part, 0, VALUE_BLOCKS);
}

void main() {
    uint part = gl_WorkGroupID.x % PARTS;
    uint rows = rows_of_kv_head(gl_WorkGroupID.z);
    uint first_row = from_both_ends(gl_WorkGroupID.x / PARTS, gl_NumWorkGroups.x / PARTS) * WORKGROUP_SIZE;
    uint last_row = max(min(first_row + WORKGROUP_SIZE, rows), 1) - 1;
    uint row_number = first_row + gl_LocalInvocationID.x;
    Row row = row_of_tile(first_row, 0);
    KeyRange range = seen_by_any(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    KeyRange full = seen_by_all(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    range = part_of_range(KeyRange(max(range.begin, push.first_key), min(range.end, push.last_key)), part, PARTS, 1);
    if (first_row >= rows) range.end = range.begin;

    load_row(row, part);
    uvec2 keys = addressed_keys(gl_WorkGroupID.z, gl_WorkGroupID.y);
    uvec2 values = addressed_values(gl_WorkGroupID.z, gl_WorkGroupID.y);
    Tile step = Tile(gl_WorkGroupID.z, gl_WorkGroupID.y, first_row, last_row, 0, 0);
    uint key = max(range.begin, push.addressed_begin); // a range that ends before it is empty, and loads all the same
    key = next_seen_key(step, key, range.end);
    // do-while, and no load under a branch: some CPU drivers run a for loop's body once more with every lane off, and
    // its unchecked loads with it
    do {
        uint first = min(key, push.addressed_end - STEP);
        uint index = first - push.addressed_begin;
        score_step(advance_address(keys, index, KEY_ROW_BYTES), advance_address(values, index, VALUE_ROW_BYTES));
        bias_step(first_row, first);
        step.first_key = first;
        step.last_key = first + STEP - 1;
        bool masked = first < max(key, full.begin) || first + STEP > min(range.end, full.end) || !blocks_of(step).whole;
        hide_step(masked, first_row, first, key, range.end);
        float rescale = soften_row(0);
        key = next_seen_key(step, first + STEP, range.end);
        uint next = min(key, push.addressed_end - STEP) - push.addressed_begin;
        sum_step(advance_address(values, index, VALUE_ROW_BYTES), advance_address(keys, next, KEY_ROW_BYTES), rescale);
    } while (key < range.end);
    sums[0].x += float(ahead & push.first_group); // 0, which the compiler does not know: it keeps the loads
    if (row_number < min(first_row + WORKGROUP_SIZE, rows)) finish(row, part, range);
}
