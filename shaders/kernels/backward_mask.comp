// The gradient of an additive attn_mask: the sum of score gradients over what the mask was broadcast to, in one order.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv], d_output [B,Hq,Lq,Dv], log_sum_exp and deltas [B,Hq,Lq] -> d_attn_mask
// [Bm,Hm,Lq|1,Lm]
// grid: (key tiles of Lm times tiles of the mask's queries, Hm, Bm). A tile of queries passes by all others that read the same part of the
// mask: of every Bm-th sequence, of every Hm-th head, of all queries where the mask has one row. An invocation owns ROWS queries of the
// tile, and of each of them KEYS_OF_INVOCATION keys.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#define HAS_GRADIENTS
#define OF_MASK

layout(local_size_x_id = 0) in;

#include "attention/carries.glsl"
#include "attention/rows.glsl"
#include "attention/variant.glsl"

uint first_key;                         // of the workgroup
uint batch, query_head, first_position; // of the tile that passes by

Row row_of(uint own) {
    return row_of_head(batch, query_head, min(first_position + own, max(query_length(batch), 1) - 1));
}
Key key_of(uint passing) { return Key(min(first_key + passing, parameters.mask_len - 1)); }
Row row_of_pair(uint own, uint passing) { return row_of(own); }
Key key_of_pair(uint own, uint passing) { return key_of(passing); }
uint numbers_of_pair(uint own, uint passing) { return own; }

uint times_seen(Row row, uint own, uint passing) {
    if (first_key + passing >= parameters.mask_len) return 0;
    return LISTS_KEYS ? times_listed(row, key_of(passing)) : 1;
}

#include "kernels/backward/scores.glsl"

#define TENSOR d_attn_mask
#define TENSOR_BINDING BINDING_D_ATTN_MASK
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

VECTOR own_first(uint own, uint dim) { return load_query_of(row_of(own), dim); }
VECTOR own_second(uint own, uint dim) { return load_d_output_of(row_of(own), dim); }
VECTOR passing_first(uint i, uint dim) { return load_key_of(batch, row_of(0).kv_head, key_of(i), dim); }
VECTOR passing_second(uint i, uint dim) { return load_value_of(batch, row_of(0).kv_head, key_of(i), dim); }

float sums[ROWS * KEYS_OF_INVOCATION];

uint query_tiles() { return (parameters.q_len + OWN - 1) / OWN; }

// Tiles that pass by: sequences, heads, and tiles of queries where the mask has one row for all of them.
uint heads_of_mask() { return GROUP * parameters.kv_heads / parameters.mask_heads; }
uint tiles_of_head() { return MASK_ROWS == 1 ? query_tiles() : 1; }
uint tiles_of_mask() { return parameters.sequences / parameters.mask_entries * heads_of_mask() * tiles_of_head(); }

void find_tile(uint number, uint own_tile_number) {
    uint tile = MASK_ROWS == 1 ? number % tiles_of_head() : own_tile_number;
    uint head = number / tiles_of_head() % heads_of_mask(), entry = number / tiles_of_head() / heads_of_mask();
    batch = workgroup().z + entry * parameters.mask_entries;
    query_head = workgroup().y + head * parameters.mask_heads;
    first_position = tile * OWN;
}

// What the score of a pair is to the mask's element: 0 where a full block keeps it from being added.
float added_to_score(Row row, Key key) {
    if (has(FEATURE_BLOCK_MASK) &&
        block_state(row.batch, row.query_head, row.position / BLOCK_Q_LEN, key.number / BLOCK_KV_LEN) == BLOCK_FULL)
        return 0.0;
    return has_more(MORE_FEATURE_TIMES_SLOPES) ? slope_log2(row) * LN_2 : 1.0;
}

void attend_tile() {
    barrier(); // the last tile's rows are done
    for (uint own = lane(); own < OWN; own += WORKGROUP_SIZE)
        keep_row_numbers(own, load_row_numbers(row_of(own), first_position + own < query_length(batch)));
    MAKE_GRADIENTS(false)
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) {
        uint own = own_of(i / KEYS_OF_INVOCATION), k = i % KEYS_OF_INVOCATION;
        sums[i] += OWN_NUMBER(gradient_tile, own, k) * added_to_score(row_of(own), key_of(passing_of(k)));
    }
}

// An element of the mask, as if it had no gaps.
uint carried_element(uint position, uint key) {
    uint mask_rows = MASK_ROWS == 1 ? 1 : parameters.q_len;
    return ((workgroup().z * parameters.mask_heads + workgroup().y) * mask_rows + position) * parameters.mask_len + key;
}

bool leaves_sums() { return has(FEATURE_SPLIT_KEYS) && push.last_key < tiles_of_mask(); }

void store(uint position, uint key, float sum) {
    if (leaves_sums()) {
        carries[carry_element(carried_element(position, key))] = sum;
        return;
    }
    uint element = workgroup().z * parameters.d_attn_mask_strides[0] +
                   workgroup().y * parameters.d_attn_mask_strides[1] + position * parameters.d_attn_mask_strides[2] +
                   key * parameters.d_attn_mask_strides[3];
    d_attn_mask_store(D_ATTN_MASK_FORMAT, element, sum);
}

// The sums of a key over the tile's queries, in their order.
void store_one_row() {
    barrier(); // the tile's last readers are done
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i)
        OWN_NUMBER(gradient_tile, own_of(i / KEYS_OF_INVOCATION), i % KEYS_OF_INVOCATION) = sums[i];
    barrier();
    for (uint position = lane(); position < PASSING; position += WORKGROUP_SIZE) {
        uint key = first_key + passing_at(position);
        if (key >= parameters.mask_len) continue;
        float sum = resumes() ? carries[carry_element(carried_element(0, key))] : 0.0;
        for (uint own = 0; own < OWN; ++own) sum += NUMBER(gradient_tile, own, position);
        store(0, key, sum);
    }
}

void store_rows(uint first) {
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) {
        uint position = first + own_of(i / KEYS_OF_INVOCATION);
        uint key = first_key + passing_of(i % KEYS_OF_INVOCATION);
        if (position >= parameters.q_len || key >= parameters.mask_len) continue;
        float sum = resumes() ? carries[carry_element(carried_element(position, key))] : 0.0;
        store(position, key, sum + sums[i]);
    }
}

void main() {
    const uint own_tiles = MASK_ROWS == 1 ? 1 : query_tiles();
    uint own_number = workgroup().x % max(own_tiles, 1);
    first_key = workgroup().x / max(own_tiles, 1) * PASSING;
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) sums[i] = 0.0;
    uint first = has(FEATURE_SPLIT_KEYS) ? push.first_key : 0;
    uint end = has(FEATURE_SPLIT_KEYS) ? push.last_key : tiles_of_mask();
    [[dont_unroll]] for (uint number = first; number < end; ++number) {
        find_tile(number, own_number);
        attend_tile();
    }
    if (MASK_ROWS == 1)
        store_one_row();
    else
        store_rows(own_number * OWN);
}
