// The gradients of K and V: d_key = scale * (score gradients)^T Q, d_value = weights^T d_output, by tiles of keys, each over the rows of
// all query heads of its KV head, tile by tile: sums over a group need no other dispatch.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv], d_output [B,Hq,Lq,Dv], log_sum_exp and deltas [B,Hq,Lq] -> d_key, d_value
// grid: (key tiles of the longest sequence, Hkv, B). An invocation owns ROWS keys of the tile, and of each of them every COLUMNS-th four
// of dims.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if defined(MATRICES) && !defined(EMULATED_SUBGROUPS)
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef BFLOAT16
#extension GL_EXT_bfloat16 : require
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#endif

#define HAS_GRADIENTS

layout(local_size_x_id = 0) in;

#include "attention/carries.glsl"
#include "kernels/backward/seeing_rows.glsl"

RowTile rows; // that pass by

Row row_of_pair(uint own, uint passing) { return row_of_tile(rows, passing); }
Key key_of_pair(uint own, uint passing) { return own_key(own); }
uint numbers_of_pair(uint own, uint passing) { return passing; }

uint times_seen(Row row, uint own, uint passing) {
    if (keys.begin + own >= keys.end) return 0;
    return LISTS_KEYS ? times_listed(row, own_key(own)) : 1;
}

#include "kernels/backward/scores.glsl"

#define TENSOR d_key
#define TENSOR_BINDING BINDING_D_KEY
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR d_value
#define TENSOR_BINDING BINDING_D_VALUE
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

VECTOR own_first(uint own, uint dim) { return load_key_of(batch, kv_head, own_key(own), dim); }
VECTOR own_second(uint own, uint dim) { return load_value_of(batch, kv_head, own_key(own), dim); }
VECTOR passing_first(uint i, uint dim) { return load_query_of(row_of_tile(rows, i), dim); }
VECTOR passing_second(uint i, uint dim) { return load_d_output_of(row_of_tile(rows, i), dim); }

DECLARE_SUMS(key_sums, FIRST_BLOCKS)
DECLARE_SUMS(value_sums, SECOND_BLOCKS)

// Of the carries: d_key's sums, then d_value's.
uint carried_key(uint own) {
    uvec2 at = row_of_key(batch, own_key(own));
    return ((at.x * parameters.kv_heads + kv_head) * parameters.kv_total + at.y) * (HEAD_DIM + V_HEAD_DIM);
}

bool leaves_sums() { return has(FEATURE_SPLIT_KEYS) && push.last_key < GROUP * parameters.q_len; }

uint carried_value(uint own) { return carried_key(own) + HEAD_DIM; }

void store_key_block(uint own, uint dim, vec4 sum) {
    if (keys.begin + own >= keys.end) return;
    if (leaves_sums()) {
        store_carry(carried_key(own), dim, HEAD_DIM, sum);
        return;
    }
    uint element = element_of_key(row_of_key(batch, own_key(own)), kv_head, parameters.d_key_strides);
    vec4 scaled = scale_of_sums() * sum;
    STORE_BLOCK(d_key, D_KEY_FORMAT, (GRADIENT_PAIRS & 4u) != 0u, element, dim, HEAD_DIM, parameters.d_key_strides[3],
                scaled)
}

void store_value_block(uint own, uint dim, vec4 sum) {
    if (keys.begin + own >= keys.end) return;
    if (leaves_sums()) {
        store_carry(carried_value(own), dim, V_HEAD_DIM, sum);
        return;
    }
    uint element = element_of_key(row_of_key(batch, own_key(own)), kv_head, parameters.d_value_strides);
    vec4 scaled = unit_of_weights() * sum;
    STORE_BLOCK(d_value, D_VALUE_FORMAT, (GRADIENT_PAIRS & 8u) != 0u, element, dim, V_HEAD_DIM,
                parameters.d_value_strides[3], scaled)
}

// Rows of the KV head that may see one of the keys, as far as positions, lengths and this dispatch say.
uvec2 rows_that_see() {
    uvec2 seeing = GROUP * positions_that_see();
    if (has(FEATURE_SPLIT_KEYS)) seeing = uvec2(max(seeing.x, push.first_key), min(seeing.y, push.last_key));
    return seeing;
}

void attend_rows() {
    Sight sight = sight_of(rows, keys);
    if (HIDES_TILES && !LISTS_KEYS && sight.first >= keys.end) return; // the whole workgroup
    bool all_visible = are_all_visible(rows, sight, OWN);
    barrier(); // the last tile's rows are done
    for (uint i = lane(); i < PASSING; i += WORKGROUP_SIZE)
        row_numbers[i] = load_row_numbers(row_of_tile(rows, i), rows.first + i < rows.end);
    MAKE_GRADIENTS(all_visible)
    if (D_VALUE_FORMAT != FORMAT_NONE) {
        ADD_PRODUCTS(value_sums, SECOND_BLOCKS, WEIGHTS, passing_second, all_visible)
    }
    if (D_KEY_FORMAT != FORMAT_NONE) {
        ADD_PRODUCTS(key_sums, FIRST_BLOCKS, SCORE_GRADIENTS, passing_first, all_visible)
    }
}

void main() {
    take_keys(workgroup().x, OWN);
    if (keys.begin >= keys.end) return; // the whole workgroup
    START_SUMS(key_sums, FIRST_BLOCKS, carried_key, HEAD_DIM)
    START_SUMS(value_sums, SECOND_BLOCKS, carried_value, V_HEAD_DIM)
    start_tiles();
    uvec2 seeing = rows_that_see();
    // With lists one tile at least, which may have no rows: llvmpipe runs through a loop without lanes, and takes a null pointer for the
    // lists then.
    const uint least = LISTS_KEYS ? 1 : 0;
    uint end = max(seeing.y, seeing.x + least);
    [[dont_unroll]] for (uint row = seeing.x; row < end; row += PASSING) {
        rows = RowTile(batch, kv_head, row, min(row + PASSING, seeing.y));
        attend_rows();
    }
    if (D_KEY_FORMAT != FORMAT_NONE) {
        STORE_SUMS(key_sums, FIRST_BLOCKS, store_key_block)
    }
    if (D_VALUE_FORMAT != FORMAT_NONE) {
        STORE_SUMS(value_sums, SECOND_BLOCKS, store_value_block)
    }
}
