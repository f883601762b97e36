// The gradient of Q: d_query = scale * (score gradients) K, by tiles of query rows, each over its keys, tile by tile.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv], d_output [B,Hq,Lq,Dv], log_sum_exp and deltas [B,Hq,Lq] -> d_query
// grid: (row tiles of a KV head's GROUP * Lq rows, Hkv, B), packed queries as in attention/rows.glsl. An invocation owns ROWS rows of the
// tile, and of each of them every COLUMNS-th four of dims.
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
#include "attention/key_walk.glsl"

RowTile rows; // of the workgroup
KeyTile tile; // that passes by

uint listed_at(uint passing); // the number of a listed key, or a larger one than any key's

Row row_of_pair(uint own, uint passing) { return row_of_tile(rows, own); }
Slot slot_of(uint passing) { return advance(tile.first, passing); }
Key key_to_load(uint passing) {
    uint slot = slot_to_load(tile, slot_of(passing)).number;
    return Key(LISTS_KEYS ? min(listed_at(passing), parameters.kv_len - 1) : slot);
}
Key key_of_pair(uint own, uint passing) { return key_to_load(passing); }
uint numbers_of_pair(uint own, uint passing) { return own; }
uint first_key_of_tile() { return tile.first.number; }

uint times_seen(Row row, uint own, uint passing) {
    bool exists = LISTS_KEYS ? listed_at(passing) < parameters.kv_len : true;
    return slot_of(passing).number < tile.end && exists ? 1 : 0;
}

#include "kernels/backward/scores.glsl"

#define TENSOR d_query
#define TENSOR_BINDING BINDING_D_QUERY
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

VECTOR own_first(uint own, uint dim) { return load_query_of(row_of_tile(rows, own), dim); }
VECTOR own_second(uint own, uint dim) { return load_d_output_of(row_of_tile(rows, own), dim); }
VECTOR passing_first(uint i, uint dim) { return load_key_of(rows.batch, rows.kv_head, key_to_load(i), dim); }
VECTOR passing_second(uint i, uint dim) { return load_value_of(rows.batch, rows.kv_head, key_to_load(i), dim); }

DECLARE_SUMS(sums, FIRST_BLOCKS)

// Of the carries.
uint carried_row(uint own) { return log_sum_exp_index(row_of_tile(rows, own)) * HEAD_DIM; }
bool leaves_sums() { return has(FEATURE_SPLIT_KEYS) && push.last_key < all_slots(); }

// Those of own rows stay.
void load_numbers() {}
void keep_numbers() {}

bool is_own(uint own) { return rows.first + own < rows.end; }

void store_block(uint own, uint dim, vec4 sum) {
    if (!is_own(own)) return;
    if (leaves_sums()) {
        store_carry(carried_row(own), dim, HEAD_DIM, sum);
        return;
    }
    Row row = row_of_tile(rows, own);
    uint element = row.batch * parameters.d_query_strides[0] + row.query_head * parameters.d_query_strides[1] +
                   query_row(row.batch, row.position) * parameters.d_query_strides[2];
    vec4 scaled = scale_of_sums() * sum;
    STORE_BLOCK(d_query, D_QUERY_FORMAT, (GRADIENT_PAIRS & 2u) != 0u, element, dim, HEAD_DIM,
                parameters.d_query_strides[3], scaled)
}

// Of lists the tile's keys. Every invocation looks one up, whether it is wanted or not: llvmpipe takes a null pointer for the lists in a
// loop that it runs through without lanes.
shared uint listed[LISTS_KEYS ? PASSING : 1];
uint listed_at(uint passing) { return listed[passing]; }

void list_keys() {
    barrier(); // the last tile's readers are done
    [[unroll]] for (uint first = 0; first < PASSING; first += WORKGROUP_SIZE) {
        uint i = first + lane();
        uint key = listed_key(list_of_tile(rows), slot_to_load(tile, slot_of(min(i, PASSING - 1))).number);
        if (i < PASSING) listed[i] = key;
    }
    barrier();
}

KeyWalk walk;

// Lists go tile by tile, whatever the block mask hides: llvmpipe looks for what it hides without lanes, too, and takes a null pointer for
// the lists then.
bool find_passing() {
    if (LISTS_KEYS) walk.whole = false;
    if (LISTS_KEYS ? walk.slots.begin >= walk.slots.end : !next_tile(walk, PASSING)) return false;
    tile = tile_of_walk(walk, PASSING);
    pass_tile(walk, PASSING);
    if (LISTS_KEYS) list_keys();
    return true;
}

void add_sums(bool all_visible) { ADD_FIRST(sums, FIRST_BLOCKS, SCORE_GRADIENTS, all_visible) }

void main() {
    rows = row_tile_of_grid(workgroup().x, OWN);
    if (is_empty(rows)) return; // the whole workgroup
    walk = begin_walk(rows, 0, PASSING, PASSING);
    START_SUMS(sums, FIRST_BLOCKS, carried_row, HEAD_DIM)
    for (uint own = lane(); own < OWN; own += WORKGROUP_SIZE) {
        keep_row_numbers(own, load_row_numbers(row_of_tile(rows, own), rows.first + own < rows.end));
        keep_range(own, row_of_tile(rows, own));
    }
    START_TILES(rows.batch, rows.kv_head)
    tile = KeyTile(Slot(0), 1, false); // of which keys are loaded, for nothing, where none passes by
    bool more = find_passing();
    // In place of no slots one that is hidden: the loop below would be such a one.
    if (LISTS_KEYS && !has(FEATURE_SPLIT_KEYS) && !more) {
        walk.slots = SlotRange(0, 1);
        more = find_passing();
    }
    LOAD_AHEAD
    [[dont_unroll]] while (more) { PASS_TILE(more, tile.all_visible); }
    STORE_SUMS(sums, FIRST_BLOCKS, store_block)
}
