// The gradients of K and V, as kernels/backward_keys.comp computes them, for CPU drivers: see cpu/addresses.comp.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv], d_output [B,Hq,Lq,Dv], log_sum_exp and deltas [B,Hq,Lq] -> d_key, d_value
// grid: (tiles of WORKGROUP_SIZE keys of the longest sequence, Hkv, B); an invocation owns a key, and takes STEP positions of a query head
// at a time, head by head of its group. At the addresses: Q and d_output in f32, rows contiguous, push.addressed_end of them in each
// (batch, query head), at least STEP; D and Dv are multiples of 4. No shared memory, barrier or subgroup operation.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

#define HAS_GRADIENTS

layout(local_size_x_id = 0) in;

#include "attention/key_value.glsl"
#include "cpu/backward_step.glsl"
#include "kernels/backward/seeing_rows.glsl"

#define TENSOR d_key
#define TENSOR_BINDING BINDING_D_KEY
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR d_value
#define TENSOR_BINDING BINDING_D_VALUE
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

Key key; // own
vec4 key_sums[BLOCKS], value_sums[V_BLOCKS];
vec4 careful_key_sums[BLOCKS], careful_value_sums[V_BLOCKS];

uint element_of_own(uvec4 strides) { return element_of_key(row_of_key(batch, key), kv_head, strides); }

vec4 key_block(uint d) {
    return key_load4_floats(KEY_FORMAT, has(FEATURE_KEY_PAIRS),
                            element_of_own(parameters.key_strides) + 4 * d * KEY_DIM_STRIDE, KEY_DIM_STRIDE);
}

vec4 value_block(uint d) {
    return value_load4_floats(VALUE_FORMAT, has(FEATURE_VALUE_PAIRS),
                              element_of_own(parameters.value_strides) + 4 * d * VALUE_DIM_STRIDE, VALUE_DIM_STRIDE);
}

void load_key() {
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) {
        own_first[d] = key_block(d);
        key_sums[d] = vec4(0);
    }
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) {
        own_second[d] = value_block(d);
        value_sums[d] = vec4(0);
    }
}

// The steps over the positions of each query head of the group.
struct RowWalk {
    uint first; // positions first .. end - 1
    uint end;
    uint step; // of the one that is next
    uint steps;
    uint of_head; // of them
};

RowWalk begin_rows(const uint size) {
    uvec2 seeing = positions_that_see();
    uint of_head = max((max(seeing.y, seeing.x) - seeing.x + size - 1) / size, 1);
    return RowWalk(seeing.x, seeing.y, 0, seeing.y > seeing.x ? GROUP * of_head : 0, of_head);
}

uint member_of(RowWalk walk) { return min(walk.step / walk.of_head, GROUP - 1); }
uint position_of(RowWalk walk, const uint size) { return walk.first + walk.step % walk.of_head * size; }

// The rows of all heads at the step's positions.
RowTile rows_of_step(RowWalk walk, const uint size) {
    uint position = position_of(walk, size);
    return RowTile(batch, kv_head, GROUP * position, GROUP * min(position + size, max(walk.end, position + 1)));
}

// Whether there is another step: those that the block mask hides are passed over.
bool next_rows(inout RowWalk walk, const uint size) {
    if (HIDES_TILES)
        while (walk.step < walk.steps && sight_of(rows_of_step(walk, size), keys).first >= keys.end) ++walk.step;
    return walk.step < walk.steps;
}

uint query_head_of(RowWalk walk) { return row_of_group(batch, kv_head, member_of(walk)).query_head; }

// first: the position of the step's first row, which may lie before the walk's. Masks read what exists, whatever the position. One branch
// for all rows: llvmpipe's compiler would add up the products of each where its branch begins, one sum after the other.
void finish_step(RowWalk walk, int first, bool all_visible) {
    uint position = position_of(walk, STEP), query_head = query_head_of(walk);
    if (is_plain(all_visible)) {
        [[unroll]] for (uint k = 0; k < STEP; ++k) {
            Row row = Row(batch, query_head, kv_head, uint(first) + k);
            take_finished(k, finish_plain(product_of(k), gradients[k], load_row_numbers(row, true)));
        }
    } else {
        [[unroll]] for (uint k = 0; k < STEP; ++k) {
            int at = first + int(k);
            bool exists = at >= int(position) && at < int(walk.end) && walk.step < walk.steps;
            Row row = Row(batch, query_head, kv_head, clamp_key(at, max(parameters.q_len, 1) - 1));
            take_finished(k, finish_masked(product_of(k), gradients[k], load_row_numbers(row, exists), row, key,
                                           exists ? 1 : 0, all_visible));
        }
    }
}

bool sees_all(RowWalk walk) {
    RowTile rows = rows_of_step(walk, STEP);
    return position_of(walk, STEP) + STEP <= walk.end && are_all_visible(rows, sight_of(rows, keys), WORKGROUP_SIZE);
}

// As attend_keys of cpu/backward_queries_addresses.comp.
void attend_rows() {
    uint before = has(FEATURE_CU_SEQLENS_Q) ? packed_begin(batch) : 0; // rows of earlier sequences
    uint entry = has(FEATURE_CU_SEQLENS_Q) ? 0 : batch;
    RowWalk walk = begin_rows(STEP);
    bool more = next_rows(walk, STEP);
    do {
        uint first = first_of_step(before + position_of(walk, STEP));
        PassingRows at = advance_rows(passing_rows(entry, query_head_of(walk)), first);
        multiply_step(at);
        finish_step(walk, int(first) - int(before), sees_all(walk));
        at = same_rows(at);
        if (D_VALUE_FORMAT != FORMAT_NONE) {
            ADD(value_sums, weights, V_BLOCKS, at.second, VALUE_ROW_BYTES)
        }
        if (D_KEY_FORMAT != FORMAT_NONE) {
            ADD(key_sums, gradients, BLOCKS, at.first, KEY_ROW_BYTES)
        }
        ++walk.step;
        more = next_rows(walk, STEP);
    } while (more);
}

void attend_carefully() {
    uint entry = has(FEATURE_CU_SEQLENS_Q) ? 0 : batch;
    [[dont_unroll]] for (uint d = 0; d < BLOCKS; ++d) careful_key_sums[d] = vec4(0);
    [[dont_unroll]] for (uint d = 0; d < V_BLOCKS; ++d) careful_value_sums[d] = vec4(0);
    [[dont_unroll]] for (RowWalk walk = begin_rows(1); next_rows(walk, 1); ++walk.step) {
        Row row = Row(batch, query_head_of(walk), kv_head, position_of(walk, 1));
        PassingRows at = own_rows(advance_rows(passing_rows(entry, row.query_head),
                                               min(query_row(batch, row.position), push.addressed_end - 1)));
        float product = 0.0, gradient = 0.0;
        DOT(product, key_block, BLOCKS, at.first)
        DOT(gradient, value_block, V_BLOCKS, at.second)
        vec2 factors =
            finish_masked(parameters.scale_log2 * product, gradient, load_row_numbers(row, true), row, key, 1, false);
        ADD_SEEN(careful_value_sums, factors.x, V_BLOCKS, at.second)
        ADD_SEEN(careful_key_sums, factors.y, BLOCKS, at.first)
    }
    [[unroll]] for (uint d = 0; d < BLOCKS; ++d) key_sums[d] = careful_key_sums[d];
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) value_sums[d] = careful_value_sums[d];
}

void store_key() {
    uint key_element = element_of_own(parameters.d_key_strides);
    uint value_element = element_of_own(parameters.d_value_strides);
    if (D_KEY_FORMAT != FORMAT_NONE) [[unroll]]
        for (uint d = 0; d < BLOCKS; ++d) {
            vec4 scaled = scale_of_sums() * key_sums[d];
            STORE_BLOCK(d_key, D_KEY_FORMAT, (GRADIENT_PAIRS & 4u) != 0u, key_element, 4 * d, HEAD_DIM,
                        parameters.d_key_strides[3], scaled)
        }
    if (D_VALUE_FORMAT != FORMAT_NONE) [[unroll]]
        for (uint d = 0; d < V_BLOCKS; ++d)
            STORE_BLOCK(d_value, D_VALUE_FORMAT, (GRADIENT_PAIRS & 8u) != 0u, value_element, 4 * d, V_HEAD_DIM,
                        parameters.d_value_strides[3], value_sums[d])
}

void main() {
    take_keys(from_both_ends(workgroup().x, (parameters.kv_len + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE), workgroup().y,
              WORKGROUP_SIZE);
    bool exists = keys.begin + gl_LocalInvocationID.x < keys.end;
    key = Key(min(keys.begin + gl_LocalInvocationID.x, max(keys.end, 1) - 1));
    load_key();
    attend_rows();
    bool finite = true;
    if (D_KEY_FORMAT != FORMAT_NONE) ARE_FINITE(finite, key_sums, BLOCKS)
    if (D_VALUE_FORMAT != FORMAT_NONE) ARE_FINITE(finite, value_sums, V_BLOCKS)
    if (!finite) attend_carefully(); // a factor of 0 hides no row that is not a number
    if (exists) store_key();
}
