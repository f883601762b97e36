// Attention with online softmax: nothing of size q_len x kv_len is written (Dao et al., "FlashAttention", 2022).
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (row tiles of a KV head's GROUP * Lq rows, times parts, Hkv, B). WORKGROUP_SIZE invocations are COLUMNS wide:
// an invocation owns ROWS rows of the tile, ROW_GROUPS apart, and of them the scores of KEYS / COLUMNS keys, COLUMNS
// apart, and four output dims in each CHUNK. K and V pass through shared memory CHUNK dims at a time, so that what a
// workgroup needs there does not grow with the head sizes. No subgroup operation.
//
// Long contexts may take several dispatches in turn, each over keys first_key .. last_key - 1, so that a dispatch's work
// is bounded; the rows' states wait between them as attention/states.glsl says. Where rows are few, a workgroup attends
// one part of their keys, and merge_parts joins the parts.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "attention/dropout.glsl"
#include "attention/key_value.glsl"
#include "attention/key_walk.glsl"
#include "attention/output.glsl"
#include "attention/query.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"
#include "attention/variant.glsl"

const uint COLUMNS = COLUMNS_OF_FLASH_TILE;
const uint KEYS = KEYS_OF_FLASH_TILE;
const uint BLOCKS = 8;           // of four dims in a chunk
const uint CHUNK = 4 * BLOCKS;   // dims
const uint VECTORS = BLOCKS / 2; // of eight dims
const uint PITCH = BLOCKS + 1;   // between rows: neighbours lie in other banks
const uint ROW_GROUPS = WORKGROUP_SIZE / COLUMNS;
const uint TILE_ROWS = ROW_GROUPS * ROWS;
const uint CHUNKS = (HEAD_DIM + CHUNK - 1) / CHUNK;
const uint VALUE_CHUNKS = (V_HEAD_DIM + CHUNK - 1) / CHUNK;

shared vec4 query_tile[TILE_ROWS * PITCH];
shared vec4 kv_tile[KEYS * PITCH];
shared vec4 weight_tile[TILE_ROWS * PITCH];   // [row][column]: of keys column, column + COLUMNS, ...
shared float partial_tile[TILE_ROWS * PITCH]; // [row][column]: a maximum or a sum of a column's keys

uint column() { return gl_LocalInvocationID.x % COLUMNS; }
uint tile_row(uint r) { return gl_LocalInvocationID.x / COLUMNS + r * ROW_GROUPS; }

RowTile rows; // of the workgroup

// Keys past the end are zeros, so that what lies there is neither read nor multiplied.
void load_query_chunk(uint chunk) {
    for (uint i = gl_LocalInvocationID.x; i < TILE_ROWS * VECTORS; i += WORKGROUP_SIZE) {
        uint dim = chunk * CHUNK + i % VECTORS * 8, at = i / VECTORS * PITCH + i % VECTORS * 2;
        mat2x4 q =
            dim < HEAD_DIM ? parameters.scale_log2 * load_query_vector(row_of_tile(rows, i / VECTORS), dim) : mat2x4(0);
        query_tile[at] = q[0];
        query_tile[at + 1] = q[1];
    }
}

void load_key_chunk(KeyTile tile, uint chunk) {
    Row row = row_of_tile(rows, 0);
    for (uint i = gl_LocalInvocationID.x; i < KEYS * VECTORS; i += WORKGROUP_SIZE) {
        uint key = tile.first + i / VECTORS;
        uint dim = chunk * CHUNK + i % VECTORS * 8, at = i / VECTORS * PITCH + i % VECTORS * 2;
        mat2x4 k = key < tile.end && dim < HEAD_DIM ? load_key_vector(row, key, dim) : mat2x4(0);
        kv_tile[at] = k[0];
        kv_tile[at + 1] = k[1];
    }
}

void load_value_chunk(KeyTile tile, uint chunk) {
    Row row = row_of_tile(rows, 0);
    for (uint i = gl_LocalInvocationID.x; i < KEYS * VECTORS; i += WORKGROUP_SIZE) {
        uint key = tile.first + i / VECTORS;
        uint dim = chunk * CHUNK + i % VECTORS * 8, at = i / VECTORS * PITCH + i % VECTORS * 2;
        mat2x4 v = key < tile.end && dim < V_HEAD_DIM ? load_value_vector(row, key, dim) : mat2x4(0);
        kv_tile[at] = v[0];
        kv_tile[at + 1] = v[1];
    }
}

vec4 scores_of_row[ROWS];
SoftmaxState states[ROWS]; // maxima are those of the whole rows, sums those of this column's keys
vec4 sums[ROWS * VALUE_CHUNKS];

void score_chunk() {
    for (uint block = 0; block < BLOCKS; ++block) {
        vec4 keys[4];
        [[unroll]] for (uint k = 0; k < 4; ++k) keys[k] = kv_tile[(column() + k * COLUMNS) * PITCH + block];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            vec4 q = query_tile[tile_row(r) * PITCH + block];
            scores_of_row[r] += vec4(dot(q, keys[0]), dot(q, keys[1]), dot(q, keys[2]), dot(q, keys[3]));
        }
    }
}

void score_tile(KeyTile tile) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) scores_of_row[r] = vec4(0);
    for (uint chunk = 0; chunk < CHUNKS; ++chunk) {
        barrier(); // the tiles' last readers are done
        load_query_chunk(chunk);
        load_key_chunk(tile, chunk);
        barrier();
        score_chunk();
    }
}

// In shared memory, where a loop finds each score by its index: unrolled, the code of the masks would stand there sixteen
// times.
void finish_scores(KeyTile tile) {
    if (tile.all_visible && !TRANSFORMS_SCORES) return;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) weight_tile[tile_row(r) * PITCH + column()] = scores_of_row[r];
    [[dont_unroll]] for (uint i = 0; i < 4 * ROWS; ++i) {
        uint at = tile_row(i / 4) * PITCH + column();
        uint key = tile.first + column() + i % 4 * COLUMNS;
        weight_tile[at][i % 4] = score_key(weight_tile[at][i % 4], row_of_tile(rows, tile_row(i / 4)), key, tile);
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) scores_of_row[r] = weight_tile[tile_row(r) * PITCH + column()];
}

float largest(vec4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }

// The softmax of the tile: the row's new maximum, of all its columns; scores become weights, for all columns to see;
// sums are rescaled.
void apply_softmax() {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) partial_tile[tile_row(r) * PITCH + column()] = largest(scores_of_row[r]);
    barrier();
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float maximum = states[r].maximum;
        for (uint c = 0; c < COLUMNS; ++c) maximum = max(maximum, partial_tile[tile_row(r) * PITCH + c]);
        float rescale = exp2(states[r].maximum - maximum);
        vec4 weights = exp2(scores_of_row[r] - maximum);
        weight_tile[tile_row(r) * PITCH + column()] = weights;
        states[r] = SoftmaxState(maximum, states[r].sum * rescale + (weights.x + weights.y) + (weights.z + weights.w));
        for (uint chunk = 0; chunk < VALUE_CHUNKS; ++chunk) sums[r * VALUE_CHUNKS + chunk] *= rescale;
    }
}

void sum_chunk(uint chunk, bool all_visible) {
    for (uint block = 0; block < COLUMNS; ++block) {
        vec4 values[4];
        [[unroll]] for (uint k = 0; k < 4; ++k) values[k] = kv_tile[(block + k * COLUMNS) * PITCH + column()];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            vec4 weights = weight_tile[tile_row(r) * PITCH + block];
            vec4 sum = sums[r * VALUE_CHUNKS + chunk];
            // a hidden key adds nothing even where its value is not a number, and otherwise to the same bits
            [[unroll]] for (uint k = 0; k < 4; ++k) sum =
                all_visible || weights[k] > 0.0 ? fma(vec4(weights[k]), values[k], sum) : sum;
            sums[r * VALUE_CHUNKS + chunk] = sum;
        }
    }
}

// The sums above hold what is dropped here: dropout does not change log_sum_exp.
void drop_weights(KeyTile tile) {
    if (!has(FEATURE_DROPOUT)) return;
    [[dont_unroll]] for (uint i = 0; i < 4 * ROWS; ++i) {
        uint key = tile.first + column() + i % 4 * COLUMNS;
        weight_tile[tile_row(i / 4) * PITCH + column()][i % 4] *=
            dropout_factor(row_of_tile(rows, tile_row(i / 4)), key);
    }
}

void attend_tile(KeyTile tile) {
    score_tile(tile);
    finish_scores(tile);
    apply_softmax();
    drop_weights(tile);
    [[unroll]] for (uint chunk = 0; chunk < VALUE_CHUNKS; ++chunk) {
        barrier(); // the weights are there, and kv_tile's last readers are done
        load_value_chunk(tile, chunk);
        barrier();
        sum_chunk(chunk, tile.all_visible);
    }
}

void start_rows(uint part) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint element = state_element(row_of_tile(rows, tile_row(r)), part);
        states[r] = softmax_empty();
        if (resumes()) states[r] = SoftmaxState(scores[element], column() == 0 ? scores[element + 1] : 0.0);
        [[unroll]] for (uint chunk = 0; chunk < VALUE_CHUNKS; ++chunk) {
            uint dim = chunk * CHUNK + 4 * column();
            vec4 sum = vec4(0);
            if (resumes() && dim < V_HEAD_DIM) sum = load_state_block(element, dim / 4);
            sums[r * VALUE_CHUNKS + chunk] = sum;
        }
    }
}

// The sums of all columns, in their order.
void join_columns() {
    barrier(); // the maxima have been read
    [[unroll]] for (uint r = 0; r < ROWS; ++r) partial_tile[tile_row(r) * PITCH + column()] = states[r].sum;
    barrier();
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        states[r].sum = 0.0;
        for (uint c = 0; c < COLUMNS; ++c) states[r].sum += partial_tile[tile_row(r) * PITCH + c];
    }
}

void leave_state(uint element, const uint r) {
    if (column() == 0) store_state(element, states[r]);
    [[unroll]] for (uint chunk = 0; chunk < VALUE_CHUNKS; ++chunk)
        store_state_block(element, chunk * CHUNK + 4 * column(), sums[r * VALUE_CHUNKS + chunk]);
}

void store_row(Row row, const uint r) {
    SoftmaxState state = states[r];
    float rescale = softmax_denominator_scale(state, row);
    float scale = state.sum > 0.0 ? rescale / state.sum : 0.0;
    uint element = output_element(row);
    [[unroll]] for (uint chunk = 0; chunk < VALUE_CHUNKS; ++chunk)
        store_output_block(element, chunk * CHUNK + 4 * column(), sums[r * VALUE_CHUNKS + chunk] * scale);
    if (column() == 0) store_log_sum_exp(state, row);
}

void main() {
    uint group = push.first_group + gl_WorkGroupID.x;
    uint part = group % parts();
    rows = row_tile(group / parts(), TILE_ROWS);
    if (is_empty(rows)) return; // the whole workgroup
    KeyWalk walk = begin_walk(rows, part, KEYS, KEYS);
    start_rows(part);
    for (uint key = walk.keys.begin; key < walk.keys.end; key += KEYS) {
        KeyTile tile = tile_of_walk(walk, key, KEYS);
        if (tile.seen) attend_tile(tile);
    }
    join_columns();
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (rows.first + tile_row(r) >= rows.end) continue;
        Row row = row_of_tile(rows, tile_row(r));
        if (leaves_states())
            leave_state(state_element(row, part), r);
        else
            store_row(row, r);
    }
}
