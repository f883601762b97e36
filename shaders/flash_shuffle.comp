// Attention with online softmax for devices that run straight code fast and load fastest when neighbouring invocations
// load different rows: each loads a part of what the subgroup needs of K and V, in its storage format, and hands it on
// by shuffles. No shared memory, no barrier.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (tiles of ROWS * WORKGROUP_SIZE / LANES_OF_ROW of a KV head's GROUP * Lq rows, times PARTS, Hkv, B). A
// workgroup is one subgroup. An invocation has ROWS rows; LANES_OF_ROW invocations, one of each column, share them,
// each with a stretch of the head dims, so that few rows fill the subgroup too. STEP keys at a time. D and Dv are
// multiples of 4 LANES_OF_ROW, K and V rows contiguous and aligned to four elements, quantised ones to whole words.
// Long contexts take several dispatches and few rows several parts, as in flash.comp.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

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

const uint COLUMNS = LANES_OF_ROW;
const uint LANES = WORKGROUP_SIZE / COLUMNS; // of a column, each with rows of its own
// a load of a column's lanes: as many blocks of as many keys
const uint LOADED_KEYS = STEP < LANES ? STEP : LANES;
const uint LOADED_BLOCKS = LANES / LOADED_KEYS;
const uint LOADS = STEP / LOADED_KEYS; // of one block
const uint BLOCKS = HEAD_DIM / 4 / COLUMNS;
const uint V_BLOCKS = V_HEAD_DIM / 4 / COLUMNS;

uint column() { return COLUMNS == 1 ? 0 : gl_SubgroupInvocationID / LANES; }
uint lane() { return COLUMNS == 1 ? gl_SubgroupInvocationID : gl_SubgroupInvocationID % LANES; }

uint row_number(uint first_row, const uint r) { return first_row + r * LANES + lane(); }

// Rows beyond the last repeat it and are not written.
Row row_of_tile(uint first_row, const uint r) {
    uint last = max(rows_of_kv_head(gl_WorkGroupID.z), 1) - 1;
    return row_of_group(gl_WorkGroupID.z, gl_WorkGroupID.y, min(row_number(first_row, r), last));
}

#include "lib/key_step.glsl"

vec4 q[ROWS * BLOCKS];
uvec2 key_rows[LOADS]; // addresses
uvec2 value_rows[LOADS];

// What lane `index` of the column holds.
float shared_value(float own, const uint index) {
    return LANES == 1 ? own : subgroupShuffle(own, column() * LANES + index);
}

// Over the columns, the same bits in each.
float sum_of_columns(float x) {
    [[unroll]] for (uint distance = LANES; distance < WORKGROUP_SIZE; distance *= 2) x +=
        subgroupShuffleXor(x, distance);
    return x;
}

// By way of lib/flash_row.glsl's arrays, whose loops stay loops: every load that is written out costs compile time.
void load_row(Row row, const uint r, uint part) {
    load_query_row(row);
    states[r] = start_row(row, part);
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) q[r * BLOCKS + d] = query[column() * BLOCKS + d];
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) sums[r * V_BLOCKS + d] = accumulator[column() * V_BLOCKS + d];
}

// Where this invocation's share of a step's loads begins.
void find_rows(uint first_key) {
    Row row = Row(gl_WorkGroupID.z, 0, gl_WorkGroupID.y, 0);
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        uint key = min(first_key + i * LOADED_KEYS + lane() % LOADED_KEYS, parameters.kv_len - 1);
        key_rows[i] = key_address(row, key);
        value_rows[i] = value_address(row, key);
    }
}

// first: this invocation's first block of a load
vec4 load_share(const uint format, uvec2 address, uint first, const uint block) {
    if (is_quantised(format)) return load_own_block(format, address, first + block);
    return load_own_block(format, advance_address(address, first, format == FORMAT_F32 ? 16 : 8), block);
}

void score_step() {
    [[unroll]] for (uint i = 0; i < ROWS * STEP; ++i) s[i] = 0.0;
    uint first = column() * BLOCKS + lane() / LOADED_KEYS;
    [[unroll]] for (uint i = 0; i < LOADS; ++i) [[unroll]] for (uint d = 0; d < BLOCKS; d += LOADED_BLOCKS) {
        vec4 own = load_share(KEY_FORMAT, key_rows[i], first, d);
        [[unroll]] for (uint b = 0; b < LOADED_BLOCKS; ++b) [[unroll]] for (uint c = 0; c < 4; ++c)
            [[unroll]] for (uint k = 0; k < LOADED_KEYS; ++k) {
            float key = shared_value(own[c], b * LOADED_KEYS + k);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) s[r * STEP + i * LOADED_KEYS + k] =
                fma(q[r * BLOCKS + d + b][c], key, s[r * STEP + i * LOADED_KEYS + k]);
        }
    }
    [[unroll]] for (uint i = 0; i < ROWS * STEP; ++i) s[i] = sum_of_columns(s[i]);
}

void sum_step() {
    float rescales[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) rescales[r] = soften_row(r);
    uint first = column() * V_BLOCKS + lane() / LOADED_KEYS;
    [[unroll]] for (uint d = 0; d < V_BLOCKS; d += LOADED_BLOCKS) {
        vec4 own[LOADS];
        [[unroll]] for (uint i = 0; i < LOADS; ++i) own[i] = load_share(VALUE_FORMAT, value_rows[i], first, d);
        [[unroll]] for (uint b = 0; b < LOADED_BLOCKS; ++b) [[unroll]] for (uint c = 0; c < 4; ++c) {
            // the step's own sum first: a long context then adds few numbers to a large one
            float step_sums[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; ++r) step_sums[r] = 0.0;
            [[unroll]] for (uint i = 0; i < LOADS; ++i) [[unroll]] for (uint k = 0; k < LOADED_KEYS; ++k) {
                float value = shared_value(own[i][c], b * LOADED_KEYS + k);
                [[unroll]] for (uint r = 0; r < ROWS; ++r) step_sums[r] =
                    fma(s[r * STEP + i * LOADED_KEYS + k], value, step_sums[r]);
            }
            [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r * V_BLOCKS + d + b][c] =
                fma(sums[r * V_BLOCKS + d + b][c], rescales[r], step_sums[r]);
        }
    }
}

// Whether what the row's columns hold of it is, all of it.
bool is_finite(const uint r) { return sum_of_columns(sums_are_finite(r) ? 0.0 : 1.0) == 0.0; }

void main() {
    uint part = gl_WorkGroupID.x % PARTS;
    uint rows = rows_of_kv_head(gl_WorkGroupID.z);
    uint first_row = from_both_ends(gl_WorkGroupID.x / PARTS, gl_NumWorkGroups.x / PARTS) * ROWS * LANES;
    uint last_row = max(min(first_row + ROWS * LANES, rows), 1) - 1;
    KeyRange range = seen_by_any(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    KeyRange full = seen_by_all(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    range = part_of_range(KeyRange(max(range.begin, push.first_key), min(range.end, push.last_key)), part, PARTS, 1);
    if (first_row >= rows) range.end = range.begin;

    [[unroll]] for (uint r = 0; r < ROWS; ++r) load_row(row_of_tile(first_row, r), r, part);
    Tile step = Tile(gl_WorkGroupID.z, gl_WorkGroupID.y, first_row, last_row, 0, 0);
    uint key = next_seen_key(step, range.begin, range.end);
    do { // see flash_addresses.comp
        find_rows(key);
        score_step();
        bias_step(first_row, key);
        step.first_key = key;
        step.last_key = key + STEP - 1;
        bool masked = key < full.begin || key + STEP > min(range.end, full.end) || !blocks_of(step).whole;
        hide_step(masked, first_row, key, 0, range.end);
        sum_step();
        key = next_seen_key(step, key + STEP, range.end);
    } while (key < range.end);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        Row row = row_of_tile(first_row, r);
        bool finite = is_finite(r);
        [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) accumulator[d] = sums[r * V_BLOCKS + d];
        if (row_number(first_row, r) >= rows) continue;
        if (finite)
            finish_row(states[r], row, part, column() * V_BLOCKS, V_BLOCKS);
        else if (column() == 0) // a weight of 0 hides no value that is not a number
            attend_row(row, part, range);
    }
}
