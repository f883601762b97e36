// Attention with online softmax for devices that run straight code fast and pay dearly for shared memory and barriers:
// CPU drivers above all. K and V are read through device addresses that are the same for the whole workgroup, so that a
// CPU driver makes of each load one scalar that feeds a vector of rows.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (tiles of WORKGROUP_SIZE of a KV head's GROUP * Lq rows, times parts, Hkv, B), packed queries as in attention/rows.glsl; an
// invocation owns a row and takes STEP keys at a time. At the addresses: K and V, rows contiguous and aligned to four elements, quantised ones to
// whole words, slots addressed_begin .. addressed_end - 1, at least STEP of them; D and Dv are multiples of 4. No shared
// memory, barrier or subgroup operation. Long contexts take several dispatches and few rows several parts, as in
// flash.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

layout(local_size_x_id = 0) in;

#include "attention/key_walk.glsl"
#include "attention/query.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"
#include "cpu/addressed_keys.glsl"
#include "cpu/both_ends.glsl"
#include "cpu/careful_row.glsl"
#include "cpu/key_step.glsl"

const uint BLOCKS = HEAD_DIM / 4;
const uint V_BLOCKS = V_HEAD_DIM / 4;

vec4 q[BLOCKS];
vec4 sums[V_BLOCKS];

void load_row(Row row, uint part) {
    uint element = query_element(row);
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) q[d] = parameters.scale_log2 * load_query_block(element, d);
    uint saved = state_element(row, part);
    state = softmax_empty();
    if (resumes()) state = load_state(saved);
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) {
        sums[d] = vec4(0);
        if (resumes()) sums[d] = load_state_block(saved, d);
    }
}

// READS_AHEAD: a word of each cache line of the step's V is loaded while K is multiplied, and of the next step's K
// while V is, in the order of memory. The products take a line of every row, then the next of every row, which not every
// CPU foresees.
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

// Of lists, where the key and the value of each slot of a step lie; else they lie side by side.
uvec2 listed_keys_at[STEP], listed_values_at[STEP];

void find_addresses(uvec2 keys, uvec2 values) {
    [[unroll]] for (uint k = 0; k < STEP; ++k) if (LISTS_KEYS) {
        listed_keys_at[k] = advance_address(keys, step_keys[k].number, KEY_ROW_BYTES);
        listed_values_at[k] = advance_address(values, step_keys[k].number, VALUE_ROW_BYTES);
    }
}

uint bytes_of_slot(const uint k, const uint row_bytes) { return LISTS_KEYS ? 0 : k * row_bytes; }

// The addresses are those of the step's first slots.
void score_step(uvec2 keys_at, uvec2 values_at, Row row) {
    float unscaled[STEP];  // sums of what is still to be scaled
    float query_sum = 0.0; // of the same dims, what their minimum is multiplied by
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] = unscaled[k] = 0.0;
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
        read_ahead(ADDRESSED_VALUE_FORMAT, values_at, VALUE_ROW_BYTES, V_BLOCKS, d, BLOCKS);
        vec4 keys[STEP];
        [[unroll]] for (uint k = 0; k < STEP; ++k) keys[k] = load_uniform_block(
            ADDRESSED_KEY_FORMAT, LISTS_KEYS ? listed_keys_at[k] : keys_at, bytes_of_slot(k, KEY_ROW_BYTES), d);
        [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint k = 0; k < STEP; ++k) unscaled[k] =
            fma(q[d][c], keys[k][c], unscaled[k]);
        if (has_minimum(ADDRESSED_KEY_FORMAT)) query_sum += dot(q[d], vec4(1));
        const bool ends_scale = is_quantised(ADDRESSED_KEY_FORMAT) && (d + 1) % BLOCKS_OF_SCALE == 0;
        [[unroll]] for (uint k = 0; k < STEP; ++k) if (ends_scale) {
            vec2 affine = load_uniform_affine(ADDRESSED_KEY_FORMAT, LISTS_KEYS ? listed_keys_at[k] : keys_at,
                                              bytes_of_slot(k, KEY_ROW_BYTES), d);
            s[k] = fma(affine.x * addressed_key_scale(row, step_keys[k]), unscaled[k], s[k]);
            if (has_minimum(ADDRESSED_KEY_FORMAT)) s[k] = fma(affine.y, query_sum, s[k]);
            unscaled[k] = 0.0;
        }
        if (ends_scale) query_sum = 0.0;
    }
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] += unscaled[k];
}

void sum_step(uvec2 values_at, uvec2 next_keys, float rescale, Row row) {
    float weights[STEP];  // times the values' scales
    float minimums = 0.0; // of the values, weighted and added up
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) {
        if (d % BLOCKS_OF_SCALE == 0) {
            minimums = 0.0;
            [[unroll]] for (uint k = 0; k < STEP; ++k) {
                vec2 affine = load_uniform_affine(ADDRESSED_VALUE_FORMAT, LISTS_KEYS ? listed_values_at[k] : values_at,
                                                  bytes_of_slot(k, VALUE_ROW_BYTES), d);
                weights[k] = s[k] * affine.x * addressed_value_scale(row, step_keys[k]);
                if (has_minimum(ADDRESSED_VALUE_FORMAT)) minimums = fma(s[k], affine.y, minimums);
            }
        }
        read_ahead(ADDRESSED_KEY_FORMAT, next_keys, KEY_ROW_BYTES, BLOCKS, d, V_BLOCKS);
        vec4 values[STEP];
        [[unroll]] for (uint k = 0; k < STEP; ++k) values[k] = load_uniform_block(
            ADDRESSED_VALUE_FORMAT, LISTS_KEYS ? listed_values_at[k] : values_at, bytes_of_slot(k, VALUE_ROW_BYTES), d);
        // the step's own sum first: a long context then adds few numbers to a large one
        vec4 sum = weights[0] * values[0];
        [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint k = 1; k < STEP; ++k) sum[c] =
            fma(weights[k], values[k][c], sum[c]);
        if (has_minimum(ADDRESSED_VALUE_FORMAT)) sum += minimums;
        sums[d] = fma(sums[d], vec4(rescale), sum);
    }
}

bool sums_are_finite() {
    const uvec4 exponent = uvec4(0x7f800000u); // all set: infinite or not a number
    uvec4 largest = uvec4(0);
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) largest = max(largest, floatBitsToUint(sums[d]) & exponent);
    return all(lessThan(largest, exponent));
}

void finish(Row row, uint part, KeyWalk walk) {
    if (!sums_are_finite()) {
        // a weight of 0 hides no value that is not a number
        attend_row(row, part, walk);
        return;
    }
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) accumulator[d] = sums[d];
    finish_row(state, row, part);
}

// The steps over the walk's keys. The last one begins before its tile, where it would end beyond the addresses.
void attend_keys(KeyWalk walk, Row row) {
    uvec2 keys = addressed_keys(walk.rows.batch, walk.rows.kv_head);
    uvec2 values = addressed_values(walk.rows.batch, walk.rows.kv_head);
    bool more = next_tile(walk, STEP);
    // a walk that ends before addressed_begin is empty, and loads all the same
    walk.slots.begin = max(walk.slots.begin, push.addressed_begin);
    // do-while, and no load under a branch: some CPU drivers run a for loop's body once more with every lane off, and
    // its unchecked loads with it
    do {
        KeyTile tile = tile_of_slots(walk, STEP);
        Slot first = Slot(min(tile.first.number, push.addressed_end - STEP));
        uint index = first.number - push.addressed_begin;
        find_keys(walk.rows, first);
        find_addresses(keys, values);
        uvec2 values_at = advance_address(values, index, VALUE_ROW_BYTES);
        score_step(advance_address(keys, index, KEY_ROW_BYTES), values_at, row);
        transform_step(row);
        hide_step(row, first, tile);
        float rescale = apply_softmax();
        pass_tile(walk, STEP);
        more = next_tile(walk, STEP);
        uint next = min(walk.slots.begin, push.addressed_end - STEP) - push.addressed_begin;
        sum_step(values_at, advance_address(keys, next, KEY_ROW_BYTES), rescale, row);
    } while (more);
    sums[0].x += float(ahead & (push.last_key >> 31)); // 0, which the compiler does not know: it keeps the loads
}

void main() {
    uint part = workgroup().x % parts();
    RowTile rows = row_tile(from_both_ends(workgroup().x / parts(), parameters.row_tiles), WORKGROUP_SIZE);
    KeyWalk walk = begin_walk(rows, part, 1, 1);
    if (is_empty(rows)) walk.slots.end = walk.slots.begin;
    // invocations past the last row repeat it and write nothing: they never return, see attend_keys
    Row row = row_of_tile(rows, gl_LocalInvocationID.x);
    load_row(row, part);
    attend_keys(walk, row);
    if (rows.first + gl_LocalInvocationID.x < rows.end) finish(row, part, walk);
}
