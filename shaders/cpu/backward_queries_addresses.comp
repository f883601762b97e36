// The gradient of Q, as kernels/backward_queries.comp computes it, for CPU drivers: see cpu/addresses.comp.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv], d_output [B,Hq,Lq,Dv], log_sum_exp and deltas [B,Hq,Lq] -> d_query
// grid: (tiles of WORKGROUP_SIZE of a KV head's GROUP * Lq rows, Hkv, B), packed queries as in attention/rows.glsl; an invocation owns a
// row and takes STEP keys at a time. At the addresses: K and V in f32, rows contiguous, push.addressed_end of them in each (batch, KV head),
// at least STEP; D and Dv are multiples of 4. No shared memory, barrier or subgroup operation.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

#define HAS_GRADIENTS

layout(local_size_x_id = 0) in;

#include "attention/key_walk.glsl"
#include "attention/query.glsl"
#include "cpu/backward_step.glsl"

#define TENSOR d_query
#define TENSOR_BINDING BINDING_D_QUERY
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

Row row;
vec2 numbers; // of the row
vec4 sums[BLOCKS];
vec4 careful_sums[BLOCKS];

vec4 query_block(uint d) { return load_query_block(query_element(row), d); }
vec4 d_output_block(uint d) { return load_d_output_block(row, d); }

void load_row(bool exists) {
    numbers = load_row_numbers(row, exists);
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
        own_first[d] = query_block(d);
        sums[d] = vec4(0);
    }
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) own_second[d] = d_output_block(d);
}

// first: the key of the step's first row, which may lie before the tile. Masks read what exists, whatever the key. One branch for all rows:
// llvmpipe's compiler would add up the products of each where its branch begins, one sum after the other.
void finish_step(int first, KeyTile tile) {
    if (is_plain(tile.all_visible)) {
        [[unroll]] for (uint k = 0; k < STEP; ++k) take_finished(k, finish_plain(product_of(k), gradients[k], numbers));
    } else {
        [[unroll]] for (uint k = 0; k < STEP; ++k) {
            int at = first + int(k);
            bool exists = at >= int(tile.first.number) && at < int(tile.end);
            Key key = Key(clamp_key(at, parameters.kv_len - 1));
            take_finished(
                k, finish_masked(product_of(k), gradients[k], numbers, row, key, exists ? 1 : 0, tile.all_visible));
        }
    }
}

// do-while, and no load under a branch: some CPU drivers run a for loop's body once more with every lane off, and its unchecked loads
// with it.
void attend_keys(KeyWalk walk) {
    PassingRows keys = passing_rows(row_of_key(walk.rows.batch, Key(0)).x, walk.rows.kv_head);
    uint before = row_of_key(walk.rows.batch, Key(0)).y; // rows of earlier sequences
    bool more = next_tile(walk, STEP);
    do {
        KeyTile tile = tile_of_slots(walk, STEP);
        uint first = first_of_step(before + tile.first.number);
        PassingRows at = advance_rows(keys, first);
        multiply_step(at);
        finish_step(int(first) - int(before), tile);
        at = same_rows(at);
        ADD(sums, gradients, BLOCKS, at.first, KEY_ROW_BYTES)
        pass_tile(walk, STEP);
        more = next_tile(walk, STEP);
    } while (more);
}

void attend_carefully(KeyWalk walk) {
    PassingRows keys = passing_rows(row_of_key(walk.rows.batch, Key(0)).x, walk.rows.kv_head);
    [[dont_unroll]] for (uint d = 0; d < BLOCKS; ++d) careful_sums[d] = vec4(0);
    [[dont_unroll]] for (; next_tile(walk, 1); pass_tile(walk, 1)) {
        Key key = Key(min(walk.slots.begin, parameters.kv_len - 1));
        PassingRows at = own_rows(advance_rows(keys, min(row_of_key(row.batch, key).y, push.addressed_end - 1)));
        float product = 0.0, gradient = 0.0;
        DOT(product, query_block, BLOCKS, at.first)
        DOT(gradient, d_output_block, V_BLOCKS, at.second)
        float factor = finish_masked(parameters.scale_log2 * product, gradient, numbers, row, key, 1, false).y;
        ADD_SEEN(careful_sums, factor, BLOCKS, at.first)
    }
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) sums[d] = careful_sums[d];
}

void store_row() {
    uint element = row.batch * parameters.d_query_strides[0] + row.query_head * parameters.d_query_strides[1] +
                   query_row(row.batch, row.position) * parameters.d_query_strides[2];
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
        vec4 scaled = scale_of_sums() * sums[d];
        STORE_BLOCK(d_query, D_QUERY_FORMAT, (GRADIENT_PAIRS & 2u) != 0u, element, 4 * d, HEAD_DIM,
                    parameters.d_query_strides[3], scaled)
    }
}

void main() {
    RowTile rows = row_tile(from_both_ends(workgroup().x, parameters.row_tiles), WORKGROUP_SIZE);
    KeyWalk walk = begin_walk(rows, 0, 1, 1);
    if (is_empty(rows)) walk.slots.end = walk.slots.begin;
    // invocations past the last row repeat it and write nothing: they never return, see attend_keys
    row = row_of_tile(rows, gl_LocalInvocationID.x);
    bool exists = rows.first + gl_LocalInvocationID.x < rows.end;
    load_row(exists);
    attend_keys(walk);
    bool finite = true;
    ARE_FINITE(finite, sums, BLOCKS)
    if (!finite) attend_carefully(walk); // a factor of 0 hides no key that is not a number
    if (exists) store_row();
}
