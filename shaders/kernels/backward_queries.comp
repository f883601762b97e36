// The gradient of Q: d_query = scale * (score gradients) K, by tiles of query rows, each over its keys, tile by tile.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv], d_output [B,Hq,Lq,Dv], log_sum_exp and deltas [B,Hq,Lq] -> d_query
// grid: (row tiles of a KV head's GROUP * Lq rows, Hkv, B), packed queries as in attention/rows.glsl. An invocation owns ROWS rows of the
// tile, and of each of them every COLUMNS-th four of dims.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#define HAS_GRADIENTS

layout(local_size_x_id = 0) in;

#include "attention/carries.glsl"
#include "attention/key_walk.glsl"

RowTile rows; // of the workgroup
KeyTile tile; // that passes by

Row row_of_pair(uint own, uint passing) { return row_of_tile(rows, own); }
Slot slot_of(uint passing) { return advance(tile.first, passing); }
Key key_of_pair(uint own, uint passing) { return key_of_slot(row_of_tile(rows, 0), slot_of(passing)); }
uint numbers_of_pair(uint own, uint passing) { return own; }

uint times_seen(Row row, uint own, uint passing) {
    Slot slot = slot_of(passing);
    return slot.number < tile.end && has_key(row, slot) ? 1 : 0;
}

#include "kernels/backward/scores.glsl"

#define TENSOR d_query
#define TENSOR_BINDING BINDING_D_QUERY
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

Key key_to_load(uint passing) { return key_of_slot(row_of_tile(rows, 0), slot_to_load(tile, slot_of(passing))); }
mat2x4 own_first(uint own, uint dim) { return load_query_of(row_of_tile(rows, own), dim); }
mat2x4 own_second(uint own, uint dim) { return load_d_output_of(row_of_tile(rows, own), dim); }
mat2x4 passing_first(uint i, uint dim) { return load_key_of(rows.batch, rows.kv_head, key_to_load(i), dim); }
mat2x4 passing_second(uint i, uint dim) { return load_value_of(rows.batch, rows.kv_head, key_to_load(i), dim); }

vec4 sums[ROWS * FIRST_BLOCKS];

uint dim_of(uint block) { return (column() + block * COLUMNS) * 4; }

// Of the carries.
uint carried_row(Row row) { return log_sum_exp_index(row) * HEAD_DIM; }
bool leaves_sums() { return has(FEATURE_SPLIT_KEYS) && push.last_key < all_slots(); }

void start_rows() {
    [[unroll]] for (uint i = 0; i < ROWS * FIRST_BLOCKS; ++i) sums[i] = vec4(0);
    if (resumes()) {
        [[unroll]] for (uint i = 0; i < ROWS * FIRST_BLOCKS; ++i) sums[i] = load_carry(
            carried_row(row_of_tile(rows, own_of(i / FIRST_BLOCKS))), dim_of(i % FIRST_BLOCKS), HEAD_DIM);
    }
    for (uint own = lane(); own < OWN; own += WORKGROUP_SIZE)
        row_numbers[own] = load_row_numbers(row_of_tile(rows, own), rows.first + own < rows.end);
    if (lane() == 0) vectors_beyond_numbers = 0;
}

void store_block(Row row, uint dim, vec4 sum) {
    if (leaves_sums()) {
        store_carry(carried_row(row), dim, HEAD_DIM, sum);
        return;
    }
    uint element = row.batch * parameters.d_query_strides[0] + row.query_head * parameters.d_query_strides[1] +
                   query_row(row.batch, row.position) * parameters.d_query_strides[2];
    vec4 scaled = scale_of_sums() * sum;
    STORE_BLOCK(d_query, D_QUERY_FORMAT, (GRADIENT_PAIRS & 2u) != 0u, element, dim, HEAD_DIM,
                parameters.d_query_strides[3], scaled)
}

// Stores the first block of sums and lets the next one take its place: the code stands there once.
void finish_rows() {
    [[dont_unroll]] for (uint i = 0; i < ROWS * FIRST_BLOCKS; ++i) {
        uint own = own_of(i / FIRST_BLOCKS);
        if (rows.first + own < rows.end) store_block(row_of_tile(rows, own), dim_of(i % FIRST_BLOCKS), sums[0]);
        [[unroll]] for (uint j = 1; j < ROWS * FIRST_BLOCKS; ++j) sums[j - 1] = sums[j];
    }
}

void main() {
    rows = row_tile_of_grid(workgroup().x, OWN);
    if (is_empty(rows)) return; // the whole workgroup
    KeyWalk walk = begin_walk(rows, 0, PASSING, PASSING);
    start_rows();
    [[dont_unroll]] for (; next_tile(walk, PASSING); pass_tile(walk, PASSING)) {
        tile = tile_of_walk(walk, PASSING);
        MAKE_GRADIENTS(tile.all_visible)
        SUM(sums, FIRST_BLOCKS, gradient_tile, passing_first)
    }
    finish_rows();
}
