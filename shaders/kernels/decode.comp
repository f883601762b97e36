// Attention of few query rows over many keys, which are split over workgroups and joined by merge_parts.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> states of the parts in scores (see attention/states.glsl)
// grid: (tiles of ROWS rows of a KV head's GROUP * Lq rows, times parts, Hkv, B), packed queries as in attention/rows.glsl
//
// COLUMNS invocations are a group that reads whole rows of K and V, a vector of eight dims each in turn, straight into
// registers: KEYS_OF_INVOCATION keys at a time, for all ROWS rows. Every group has a softmax of its own, and every
// invocation its dims of the output, so that nothing but the sums of the scores is exchanged on the way; in the end the
// workgroup joins its groups. The sums go through subgroups where SUBGROUP_SUMS is defined, else through shared memory.
// Where BYTE_PRODUCTS is defined, K is q8_0, V does not lie in it, and a vector is half a block of sixteen dims, two of eight
// in what follows: products of Q and K are of bytes (kernels/byte_products.glsl).
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if defined(SUBGROUP_SUMS) && !defined(EMULATED_SUBGROUPS)
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef BYTE_PRODUCTS
#extension GL_EXT_spirv_intrinsics : require
#endif

layout(local_size_x_id = 0) in;

#include "attention/dropout.glsl"
#include "attention/key_walk.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"
#ifdef SUBGROUP_SUMS
#include "common/subgroups.glsl"
#endif
#include "kernels/flash/elements.glsl"
#ifdef BYTE_PRODUCTS
#include "kernels/byte_products.glsl"
#endif

const uint GROUPS = WORKGROUP_SIZE / COLUMNS;
const uint KEYS = KEYS_OF_INVOCATION; // of a group at a time
const uint TILE_KEYS = GROUPS * KEYS;
const uint SCORES = ROWS * KEYS;

// Vectors of an invocation.
#ifdef BYTE_PRODUCTS
const uint NEIGHBOURS = 2; // vectors of half a block
#else
const uint NEIGHBOURS = 1;
#endif
const uint KEY_VECTORS = (HEAD_DIM + 8 * NEIGHBOURS * COLUMNS - 1) / (8 * NEIGHBOURS * COLUMNS) * NEIGHBOURS;
const uint VALUE_VECTORS = (V_HEAD_DIM + 8 * NEIGHBOURS * COLUMNS - 1) / (8 * NEIGHBOURS * COLUMNS) * NEIGHBOURS;
const uint PADDED_HEAD_DIM = 8 * COLUMNS * KEY_VECTORS, PADDED_V_HEAD_DIM = 8 * COLUMNS * VALUE_VECTORS;
const uint BLOCKS = 2 * VALUE_VECTORS; // of four dims of its output, of a row

const uint SCORE_PITCH = COLUMNS + 1;                // from a score's parts to the next score's
const uint JOIN_PITCH = 8 * VALUE_VECTORS * COLUMNS; // from a group's output to the next one's
const uint PARTS_OF_SCORES = GROUPS * SCORES * SCORE_PITCH, OUTPUTS = GROUPS * JOIN_PITCH;

shared float exchange[PARTS_OF_SCORES > OUTPUTS ? PARTS_OF_SCORES : OUTPUTS];
shared float score_tile[GROUPS * SCORES];
shared vec2 state_tile[GROUPS * ROWS];

#ifdef BYTE_PRODUCTS
const uint KEY_HALVES = KEY_VECTORS / 2, QUERY_HALVES = KEY_HALVES * COLUMNS;
shared uvec4 query_high[ROWS * QUERY_HALVES], query_low[ROWS * QUERY_HALVES];
shared float query_scale[ROWS * QUERY_HALVES];
QueryNumbers queries[ROWS * KEY_HALVES];
HalfBlock keys[KEYS * KEY_HALVES];
#else
shared ELEMENT query_tile[QUERY_STAGED != 0 ? ROWS * KEY_VECTORS * COLUMNS * ELEMENTS_OF_VECTOR : 1];
VECTOR queries[QUERY_STAGED != 0 ? 1 : ROWS * KEY_VECTORS];
VECTOR keys[KEYS * KEY_VECTORS];
#endif
VECTOR values[KEYS * VALUE_VECTORS];
float key_scores[SCORES]; // [row][key]
SoftmaxState row_states[ROWS];
vec4 sums[ROWS * BLOCKS];

#ifdef SUBGROUP_SUMS
uint lane() { return subgroup_index() * SUBGROUP_SIZE + subgroup_lane(); }
#else
uint lane() { return gl_LocalInvocationID.x; }
#endif
uint column() { return lane() % COLUMNS; }
uint group() { return lane() / COLUMNS; }
uint dim_of(uint vector) { return 8 * ((vector / NEIGHBOURS * COLUMNS + column()) * NEIGHBOURS + vector % NEIGHBOURS); }
Slot slot_of(KeyTile tile, uint k) { return advance(advance(tile.first, k * GROUPS), group()); }

// The first element of a column's vector in query_tile. Columns read neighbours: the next element of a vector is COLUMNS on.
uint query_at(uint vector, uint at_column) { return vector * ELEMENTS_OF_VECTOR * COLUMNS + at_column; }

void empty_rows() {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        row_states[r] = softmax_empty();
        [[unroll]] for (uint block = 0; block < BLOCKS; ++block) sums[r * BLOCKS + block] = vec4(0);
    }
}

#ifdef BYTE_PRODUCTS
void start_rows() {
    empty_rows();
    [[dont_unroll]] for (uint i = lane(); i < ROWS * QUERY_HALVES; i += WORKGROUP_SIZE) {
        uint row = i / QUERY_HALVES, dim = i % QUERY_HALVES * HALF_BLOCK;
        QueryNumbers query =
            query_numbers(load_query(row, dim, PADDED_HEAD_DIM), load_query(row, dim + 8, PADDED_HEAD_DIM));
        query_high[i] = query.high;
        query_low[i] = query.low;
        query_scale[i] = query.scale;
    }
    barrier();
    [[unroll]] for (uint i = 0; i < ROWS * KEY_HALVES; ++i) {
        uint at = i * COLUMNS + column();
        queries[i] = QueryNumbers(query_high[at], query_low[at], query_scale[at]);
    }
}

void load_keys(KeyTile tile) {
    [[unroll]] for (uint k = 0; k < KEYS; ++k) {
        Slot slot = slot_to_load(tile, slot_of(tile, k));
        [[unroll]] for (uint i = 0; i < KEY_HALVES; ++i) keys[k * KEY_HALVES + i] =
            load_key_half(slot, dim_of(2 * i), PADDED_HEAD_DIM);
    }
}

void load_values(KeyTile tile) {
    [[unroll]] for (uint k = 0; k < KEYS; ++k) {
        Slot slot = slot_to_load(tile, slot_of(tile, k));
        [[unroll]] for (uint i = 0; i < VALUE_VECTORS; i += 2) {
            uint at = k * VALUE_VECTORS + i;
            if (VALUE_FORMAT == FORMAT_Q8_0) {
                HalfBlock block = load_value_half(slot, dim_of(i), PADDED_V_HEAD_DIM);
                values[at] = block.scale * signed_bytes(block.bytes.xy);
                values[at + 1] = block.scale * signed_bytes(block.bytes.zw);
            } else {
                values[at] = load_value(slot, dim_of(i), PADDED_V_HEAD_DIM);
                values[at + 1] = load_value(slot, dim_of(i + 1), PADDED_V_HEAD_DIM);
            }
        }
    }
}

// This column's part of the scores.
void score_keys() {
    [[unroll]] for (uint i = 0; i < SCORES; ++i) key_scores[i] = 0.0;
    [[unroll]] for (uint i = 0; i < KEY_HALVES; ++i) [[unroll]] for (uint s = 0; s < SCORES; ++s) key_scores[s] +=
        product(queries[s / KEYS * KEY_HALVES + i], keys[s % KEYS * KEY_HALVES + i]);
}
#else
void start_rows() {
    empty_rows();
    if (QUERY_STAGED == 0) {
        [[unroll]] for (uint r = 0; r < ROWS; ++r) [[unroll]] for (uint i = 0; i < KEY_VECTORS; ++i)
            queries[r * KEY_VECTORS + i] = load_query(r, dim_of(i), PADDED_HEAD_DIM);
        return;
    }
    [[dont_unroll]] for (uint i = lane(); i < ROWS * KEY_VECTORS * COLUMNS; i += WORKGROUP_SIZE) {
        VECTOR vector = load_query(i / (KEY_VECTORS * COLUMNS), i % (KEY_VECTORS * COLUMNS) * 8, PADDED_HEAD_DIM);
        uint at = query_at(i / COLUMNS, i % COLUMNS);
        PUT_APART(query_tile, at, COLUMNS, vector)
    }
    barrier();
}

vec4 query_block(const uint r, const uint i, const uint block) {
    if (QUERY_STAGED == 0) return block_of_vector(QUERY_FORMAT, queries[r * KEY_VECTORS + i], block);
    uint at = query_at(r * KEY_VECTORS + i, column()) + block / BLOCKS_OF_ELEMENT * COLUMNS;
    return block_of(QUERY_FORMAT, query_tile[at], block % BLOCKS_OF_ELEMENT);
}

void load_keys(KeyTile tile) {
    [[unroll]] for (uint k = 0; k < KEYS; ++k) {
        Slot slot = slot_to_load(tile, slot_of(tile, k));
        [[unroll]] for (uint i = 0; i < KEY_VECTORS; ++i) keys[k * KEY_VECTORS + i] =
            load_key(slot, dim_of(i), PADDED_HEAD_DIM);
    }
}

void load_values(KeyTile tile) {
    [[unroll]] for (uint k = 0; k < KEYS; ++k) {
        Slot slot = slot_to_load(tile, slot_of(tile, k));
        [[unroll]] for (uint i = 0; i < VALUE_VECTORS; ++i) {
            if (VALUE_IN_KEY != 0)
                values[k * VALUE_VECTORS + i] = keys[k * KEY_VECTORS + i];
            else
                values[k * VALUE_VECTORS + i] = load_value(slot, dim_of(i), PADDED_V_HEAD_DIM);
        }
    }
}

// This column's part of the scores.
void score_keys() {
    [[unroll]] for (uint i = 0; i < SCORES; ++i) key_scores[i] = 0.0;
    [[unroll]] for (uint i = 0; i < KEY_VECTORS; ++i) [[unroll]] for (uint block = 0; block < 2; ++block) {
        vec4 q4[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) q4[r] = query_block(r, i, block);
        [[unroll]] for (uint k = 0; k < KEYS; ++k) {
            vec4 k4 = block_of_vector(KEY_FORMAT, keys[k * KEY_VECTORS + i], block);
            [[unroll]] for (uint j = 0; j < 4; ++j) [[unroll]] for (uint r = 0, s = k; r < ROWS; ++r, s += KEYS)
                key_scores[s] = fma(q4[r][j], k4[j], key_scores[s]);
        }
    }
}
#endif

bool needs_finish(KeyTile tile) { return TRANSFORMS_SCORES || !tile.all_visible; }

float finish_score(float score, uint i, KeyTile tile) {
    return score_key(score, row_of_tile(rows, i / KEYS), slot_of(tile, i % KEYS), tile);
}

// Adds up the columns' parts: afterwards every column has the scores.
#ifdef SUBGROUP_SUMS
void join_scores() {
    [[unroll]] for (uint other = 1; other < COLUMNS; other *= 2) [[unroll]] for (uint i = 0; i < SCORES; ++i)
        key_scores[i] += subgroupShuffleXor(key_scores[i], other);
    [[unroll]] for (uint i = 0; i < SCORES; ++i) key_scores[i] = scale_score(key_scores[i]);
}
#else
void join_scores() {
    [[unroll]] for (uint i = 0; i < SCORES; ++i) exchange[(group() * SCORES + i) * SCORE_PITCH + column()] =
        key_scores[i];
    barrier();
    [[dont_unroll]] for (uint i = column(); i < SCORES; i += COLUMNS) {
        float score = 0.0;
        for (uint c = 0; c < COLUMNS; ++c) score += exchange[(group() * SCORES + i) * SCORE_PITCH + c];
        score_tile[group() * SCORES + i] = scale_score(score);
    }
    barrier();
    [[unroll]] for (uint i = 0; i < SCORES; ++i) key_scores[i] = score_tile[group() * SCORES + i];
}
#endif

// Each column finishes some of the scores, and then has all.
void finish_scores(KeyTile tile) {
    barrier(); // score_tile's last readers are done
    [[unroll]] for (uint i = 0; i < SCORES; ++i) if (column() == i % COLUMNS) score_tile[group() * SCORES + i] =
        key_scores[i];
    barrier();
    [[dont_unroll]] for (uint i = column(); i < SCORES; i += COLUMNS) score_tile[group() * SCORES + i] =
        finish_score(score_tile[group() * SCORES + i], i, tile);
    barrier();
    [[unroll]] for (uint i = 0; i < SCORES; ++i) key_scores[i] = score_tile[group() * SCORES + i];
}

// Scores become weights; sums are rescaled.
void apply_softmax() {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float maximum = row_states[r].maximum, sum = 0.0;
        [[unroll]] for (uint k = 0; k < KEYS; ++k) maximum = max(maximum, key_scores[r * KEYS + k]);
        float rescale = exp2(row_states[r].maximum - maximum);
        [[unroll]] for (uint k = 0; k < KEYS; ++k) {
            key_scores[r * KEYS + k] = exp2(key_scores[r * KEYS + k] - maximum);
            sum += key_scores[r * KEYS + k];
        }
        row_states[r] = SoftmaxState(maximum, fma(row_states[r].sum, rescale, sum));
        [[unroll]] for (uint block = 0; block < BLOCKS; ++block) sums[r * BLOCKS + block] *= rescale;
    }
}

// The sums above hold what is dropped here: dropout does not change log_sum_exp.
void drop_weights(KeyTile tile) {
    if (!has(FEATURE_DROPOUT)) return;
    barrier(); // score_tile's last readers are done
    [[dont_unroll]] for (uint i = column(); i < SCORES; i += COLUMNS) {
        Row row = row_of_tile(rows, i / KEYS);
        score_tile[group() * SCORES + i] = dropout_factor(row, key_of_slot(row, slot_of(tile, i % KEYS)));
    }
    barrier();
    [[unroll]] for (uint i = 0; i < SCORES; ++i) key_scores[i] *= score_tile[group() * SCORES + i];
}

void sum_values() {
    [[unroll]] for (uint k = 0; k < KEYS; ++k) [[unroll]] for (uint block = 0; block < BLOCKS; ++block) {
        vec4 v4 = block_of_vector(VALUE_FORMAT, values[k * VALUE_VECTORS + block / 2], block % 2);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r * BLOCKS + block] =
            fma(vec4(key_scores[r * KEYS + k]), v4, sums[r * BLOCKS + block]);
    }
}

// The same to the bit, where a row may not see a key: it adds nothing even if its value is not a number. A key a time,
// and the next one takes its place: a loop cannot index registers.
void sum_seen_values() {
    [[dont_unroll]] for (uint k = 0; k < KEYS; ++k) {
        [[unroll]] for (uint block = 0; block < BLOCKS; ++block) {
            vec4 v4 = block_of_vector(VALUE_FORMAT, values[block / 2], block % 2);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                float weight = key_scores[r * KEYS];
                vec4 sum = sums[r * BLOCKS + block];
                sums[r * BLOCKS + block] = weight == 0.0 ? sum : fma(vec4(weight), v4, sum);
            }
        }
        [[unroll]] for (uint i = VALUE_VECTORS; i < KEYS * VALUE_VECTORS; ++i) values[i - VALUE_VECTORS] = values[i];
        [[unroll]] for (uint i = 1; i < SCORES; ++i) key_scores[i - 1] = key_scores[i];
    }
}

// Through subgroups, scores that need no more than their scale have no branch between the loads of V and its products: the
// compiler would move the loads past it, and V would be on its way only after K has come. Barriers hold the loads in any case.
void attend_tile(KeyTile tile) {
    load_keys(tile);
    load_values(tile);
    score_keys();
    join_scores();
#ifdef SUBGROUP_SUMS
    if (!needs_finish(tile) && !has(FEATURE_DROPOUT)) {
        apply_softmax();
        sum_values();
        return;
    }
#endif
    if (needs_finish(tile)) finish_scores(tile);
    apply_softmax();
    drop_weights(tile);
    if (tile.all_visible)
        sum_values();
    else
        sum_seen_values();
}

// The state of a row's groups, and what this group's sums are multiplied with.
SoftmaxState join_states(uint r, out float rescale) {
    SoftmaxState all = softmax_empty();
    [[unroll]] for (uint g = 0; g < GROUPS; ++g) all.maximum = max(all.maximum, state_tile[g * ROWS + r].x);
    [[unroll]] for (uint g = 0; g < GROUPS; ++g) all.sum +=
        state_tile[g * ROWS + r].y * exp2(state_tile[g * ROWS + r].x - all.maximum);
    rescale = exp2(state_tile[group() * ROWS + r].x - all.maximum);
    return all;
}

vec4 join_block(uint dim) {
    vec4 sum = vec4(0);
    [[unroll]] for (uint g = 0; g < GROUPS; ++g) {
        uint at = g * JOIN_PITCH + dim;
        sum += vec4(exchange[at], exchange[at + 1], exchange[at + 2], exchange[at + 3]);
    }
    return sum;
}

// A row at a time, and the next one takes its place.
void leave_rows(uint part) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (column() == 0) state_tile[group() * ROWS + r] = vec2(row_states[r].maximum, row_states[r].sum);
    }
    [[dont_unroll]] for (uint r = 0; r < ROWS; ++r) {
        barrier(); // the states are there, and the last row's readers are done
        float rescale;
        SoftmaxState state = join_states(r, rescale);
        [[unroll]] for (uint block = 0; block < BLOCKS; ++block) [[unroll]] for (uint i = 0; i < 4; ++i)
            exchange[group() * JOIN_PITCH + dim_of(block / 2) + block % 2 * 4 + i] = sums[block][i] * rescale;
        barrier();
        if (rows.first + r < rows.end) {
            uint element = state_element(row_of_tile(rows, r), part);
            if (lane() == 0) store_state(element, state);
            [[dont_unroll]] for (uint block = lane(); block < VALUE_BLOCKS; block += WORKGROUP_SIZE)
                store_state_block(element, 4 * block, join_block(4 * block));
        }
        [[unroll]] for (uint i = BLOCKS; i < ROWS * BLOCKS; ++i) sums[i - BLOCKS] = sums[i];
    }
}

void main() {
    uint index = workgroup().x;
    uint part = index % parts();
    rows = row_tile(index / parts(), ROWS);
    if (is_empty(rows)) return; // the whole workgroup
    KeyWalk walk = begin_walk(rows, part, TILE_KEYS, TILE_KEYS);
    start_rows();
    [[dont_unroll]] for (; next_tile(walk, TILE_KEYS); pass_tile(walk, TILE_KEYS))
        attend_tile(tile_of_walk(walk, TILE_KEYS));
    leave_rows(part);
}
