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
#define OF_KEYS

layout(local_size_x_id = 0) in;

#include "attention/carries.glsl"
#include "kernels/backward/seeing_rows.glsl"

RowTile rows; // that pass by

Row row_of_pair(uint own, uint passing) { return row_of_tile(rows, passing); }
Key key_of_pair(uint own, uint passing) { return own_key(own); }
uint numbers_of_pair(uint own, uint passing) { return passing; }
uint first_key_of_tile() { return keys.begin; }

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

#ifndef MATRICES
DECLARE_SUMS(key_sums, FIRST_BLOCKS)
DECLARE_SUMS(value_sums, SECOND_BLOCKS)
#endif

// Of the carries: d_key's sums, then d_value's.
uint carried_key(uint own) {
    uvec2 at = row_of_key(batch, own_key(own));
    return ((at.x * parameters.kv_heads + kv_head) * parameters.kv_total + at.y) * (HEAD_DIM + V_HEAD_DIM);
}

bool leaves_sums() { return has(FEATURE_SPLIT_KEYS) && push.last_key < GROUP * parameters.q_len; }

uint carried_value(uint own) { return carried_key(own) + HEAD_DIM; }

bool is_own(uint own) { return keys.begin + own < keys.end; }

void store_key_block(uint own, uint dim, vec4 sum) {
    if (!is_own(own)) return;
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
    if (!is_own(own)) return;
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

uvec2 seeing; // rows that are still to pass by
bool rows_see_all;

// Tiles of which no row sees a key are passed over; with lists none is: see kernels/backward_queries.comp. No return within the loop: the
// library's specialiser takes apart functions that end at their end.
bool find_passing() {
    bool found = false;
    [[dont_unroll]] while (!found && seeing.x < seeing.y) {
        rows = RowTile(batch, kv_head, seeing.x, min(seeing.x + PASSING, seeing.y));
        Sight sight = Sight(keys.begin, false);
        if (!LISTS_KEYS) sight = sight_of(rows, keys);
        found = LISTS_KEYS || !HIDES_TILES || sight.first < keys.end;
        rows_see_all = are_all_visible(rows, sight, OWN);
        seeing.x += PASSING;
    }
    return found;
}

// Of the rows that pass by, an invocation's own ones: nothing asks for what is loaded before it is kept.
const uint ROWS_OF_LANE = (PASSING + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
StoredNumbers next_numbers[ROWS_OF_LANE];
uint row_of_turn(uint turn) { return turn * WORKGROUP_SIZE + lane(); }

void load_numbers() {
    [[unroll]] for (uint turn = 0; turn < ROWS_OF_LANE; ++turn) next_numbers[turn] =
        load_stored_numbers(row_of_tile(rows, row_of_turn(turn)));
}

void keep_numbers() {
    [[unroll]] for (uint turn = 0; turn < ROWS_OF_LANE; ++turn) {
        uint i = row_of_turn(turn);
        if (i >= PASSING) break;
        keep_row_numbers(i, row_numbers_of(next_numbers[turn], rows.first + i < rows.end));
        keep_range(i, row_of_tile(rows, i));
    }
}

#ifdef MATRICES // a subgroup has sums of one kind
void start_sums() { START_SUMS(sums, , , ) }

void add_sums(bool all_visible) { add_products(); }

void store_block(uint own, uint dim, vec4 sum) {
    if (kind() != 0) {
        if (D_VALUE_FORMAT != FORMAT_NONE && dim < V_HEAD_DIM) store_value_block(own, dim, sum);
    } else if (D_KEY_FORMAT != FORMAT_NONE && dim < HEAD_DIM) {
        store_key_block(own, dim, sum);
    }
}

void store_sums() { STORE_SUMS(sums, , store_block) }
#else
void start_sums() {
    START_SUMS(key_sums, FIRST_BLOCKS, carried_key, HEAD_DIM)
    START_SUMS(value_sums, SECOND_BLOCKS, carried_value, V_HEAD_DIM)
}

void add_sums(bool all_visible) {
    if (D_VALUE_FORMAT != FORMAT_NONE) {
        ADD_SECOND(value_sums, SECOND_BLOCKS, WEIGHTS, all_visible)
    }
    if (D_KEY_FORMAT != FORMAT_NONE) {
        ADD_FIRST(key_sums, FIRST_BLOCKS, SCORE_GRADIENTS, all_visible)
    }
}

void store_sums() {
    if (D_KEY_FORMAT != FORMAT_NONE) {
        STORE_SUMS(key_sums, FIRST_BLOCKS, store_key_block)
    }
    if (D_VALUE_FORMAT != FORMAT_NONE) {
        STORE_SUMS(value_sums, SECOND_BLOCKS, store_value_block)
    }
}
#endif

// Under a causal mask the first keys, which most rows see, come first, of all heads: the last workgroups to start are the shortest.
void take_keys_of_grid() {
    uint tile = workgroup().x, head = workgroup().y;
    if (has(FEATURE_CAUSAL)) {
        uint of_all_heads = tile + (parameters.kv_len + OWN - 1) / OWN * head;
        tile = of_all_heads / parameters.kv_heads;
        head = of_all_heads % parameters.kv_heads;
    }
    take_keys(tile, head, OWN);
}

void main() {
    take_keys_of_grid();
    if (keys.begin >= keys.end) return; // the whole workgroup
    start_sums();
    START_TILES(batch, kv_head)
    seeing = rows_that_see();
    bool more = find_passing();
    if (!more) rows = RowTile(batch, kv_head, 0, 0); // of which rows are loaded, for nothing
    // In place of no rows a tile of none: see kernels/backward_queries.comp.
    if (LISTS_KEYS && !more) {
        rows_see_all = false;
        more = true;
    }
    LOAD_AHEAD
    [[dont_unroll]] while (more) { PASS_TILE(more, rows_see_all); }
    store_sums();
}
