// Attention with online softmax: nothing of size q_len x kv_len is written (Dao et al., "FlashAttention", 2022).
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (row tiles of a KV head's GROUP * Lq rows, times parts, Hkv, B), packed queries as in attention/rows.glsl.
// WORKGROUP_SIZE invocations are COLUMNS wide:
// an invocation owns ROWS rows of the tile, ROW_GROUPS apart, and of them the scores of KEYS_OF_INVOCATION keys, COLUMNS
// apart, and the elements of the output that are COLUMNS apart. Both products run from registers in small loops, which
// compilers leave small; what is rare stands in loops of its own, over numbers in shared memory, and costs those two no
// register. No subgroup operation.
//
// Long contexts may take several dispatches in turn, each over keys first_key .. last_key - 1, so that a dispatch's work
// is bounded; the rows' states wait between them as attention/states.glsl says. Where rows are few, a workgroup attends
// one part of their keys, and merge_parts joins the parts.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef DOT_PRODUCTS
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

layout(local_size_x_id = 0) in;

#include "attention/dropout.glsl"
#include "attention/key_walk.glsl"
#include "attention/output.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"
#include "kernels/flash/tiles.glsl"

const uint BLOCKS = VALUE_ELEMENTS * BLOCKS_OF_VALUE; // of four dims of the output, of an invocation and a row

float scores_of_rows[ROWS * KEYS_OF_INVOCATION];
SoftmaxState row_states[ROWS]; // maxima are those of the whole rows, sums those of this column's keys
vec4 sums[ROWS * BLOCKS];

// The first dim of a block.
uint dim_of(uint block) {
    return ((column() + block / BLOCKS_OF_VALUE * COLUMNS) * BLOCKS_OF_VALUE + block % BLOCKS_OF_VALUE) * 4;
}

#ifdef DOT_PRODUCTS
#include "kernels/flash/dot_products.glsl"
#else
#include "kernels/flash/products.glsl"
#endif

void score_chunk(uint chunk) {
    uint key = column() * KEY_PITCH, query = tile_row(0) * QUERY_PITCH + chunk % QUERY_CHUNKS * CHUNK_ELEMENTS;
    [[dont_unroll]] for (uint i = 0; i < CHUNK_ELEMENTS; i += ELEMENTS_OF_VECTOR) {
        uint key_at = small(key + i), query_at = small(query + i);
        [[unroll]] for (uint j = 0; j < ELEMENTS_OF_VECTOR; ++j) score_element(key_at + j, query_at + j);
    }
}

void score_tile(KeyTile tile) {
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) scores_of_rows[i] = 0.0;
    [[dont_unroll]] for (uint chunk = 0; chunk < CHUNKS; ++chunk) {
        barrier(); // the tiles' last readers are done
        if (QUERY_STAGED == 0) stage_query(chunk);
        stage_keys(tile, chunk);
        barrier();
        score_chunk(chunk);
    }
    [[unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) scores_of_rows[i] = scale_score(scores_of_rows[i]);
}

// The slot of this column's key `k`.
Slot own_slot(KeyTile tile, uint k) { return advance(advance(tile.first, column()), k * COLUMNS); }

// In shared memory, where a loop finds each score by its index: unrolled, the masks would stand there for each.
void finish_scores(KeyTile tile) {
    if (tile.all_visible && !TRANSFORMS_SCORES) return;
    const uint count = KEYS_OF_INVOCATION;
    [[unroll]] for (uint i = 0; i < ROWS * count; ++i) put_number(i / count, i % count, scores_of_rows[i]);
    [[dont_unroll]] for (uint i = 0; i < ROWS * count; ++i) {
        uvec2 at = weight_at(i / count, i % count);
        Row row = row_of_tile(rows, tile_row(i / count));
        float score = FROM_WEIGHT(weight_tile[at.x][at.y]);
        weight_tile[at.x][at.y] = TO_WEIGHT(score_key(score, row, own_slot(tile, i % count), tile));
    }
    [[unroll]] for (uint i = 0; i < ROWS * count; ++i) {
        uvec2 at = weight_at(i / count, i % count);
        scores_of_rows[i] = FROM_WEIGHT(weight_tile[at.x][at.y]);
    }
}

// Shows a number of this column to the others of its row.
void show_columns(const float numbers[ROWS]) {
    barrier(); // kv_tile's last readers are done
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint at = tile_row(r) * COLUMNS + column();
        kv_tile[at / COMPONENTS][at % COMPONENTS] = TO_COMPONENT(numbers[r]);
    }
    barrier();
}

TILE_ELEMENT shown_columns(const uint r, uint i) { return kv_tile[tile_row(r) * (COLUMNS / COMPONENTS) + i]; }

void find_maxima(out float maxima[ROWS]) {
    float largest[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        largest[r] = scores_of_rows[r * KEYS_OF_INVOCATION];
        [[unroll]] for (uint k = 1; k < KEYS_OF_INVOCATION; ++k) largest[r] =
            max(largest[r], scores_of_rows[r * KEYS_OF_INVOCATION + k]);
    }
    show_columns(largest);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) maxima[r] = row_states[r].maximum;
    [[dont_unroll]] for (uint i = 0; i < COLUMNS / COMPONENTS; ++i) [[unroll]] for (uint r = 0; r < ROWS; ++r)
        maxima[r] = max(maxima[r], reference_of(largest_of(FROM_COMPONENTS(shown_columns(r, i)))));
}

// The softmax of the tile: scores become weights, for all columns to see; sums are rescaled.
void apply_softmax() {
    float maxima[ROWS];
    find_maxima(maxima);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float rescale = exp2(row_states[r].maximum - maxima[r]), sum = 0.0;
        [[unroll]] for (uint k = 0; k < KEYS_OF_INVOCATION; ++k) {
            float weight = exp2(scores_of_rows[r * KEYS_OF_INVOCATION + k] - maxima[r]);
            scores_of_rows[r * KEYS_OF_INVOCATION + k] = weight;
            sum += weight;
        }
        put_weights(r);
        row_states[r] = SoftmaxState(maxima[r], fma(row_states[r].sum, rescale, sum));
        [[unroll]] for (uint block = 0; block < BLOCKS; ++block) sums[r * BLOCKS + block] *= rescale;
    }
}

// The sums above hold what is dropped here: dropout does not change log_sum_exp.
void drop_weights(KeyTile tile) {
    if (!has(FEATURE_DROPOUT)) return;
    [[dont_unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) {
        uint r = i / KEYS_OF_INVOCATION, k = i % KEYS_OF_INVOCATION;
        uvec2 at = weight_at(r, k);
        Row row = row_of_tile(rows, tile_row(r));
        float weight = FROM_WEIGHT(weight_tile[at.x][at.y]);
        weight_tile[at.x][at.y] = TO_WEIGHT(weight * dropout_factor(row, key_of_slot(row, own_slot(tile, k))));
    }
}

void attend_tile(KeyTile tile) {
    score_tile(tile);
    finish_scores(tile);
    apply_softmax();
    drop_weights(tile);
    [[dont_unroll]] for (uint chunk = 0; chunk < VALUE_CHUNKS; ++chunk) {
        barrier(); // the weights are there, and kv_tile's last readers are done
        stage_values(tile, chunk);
        barrier();
        if (tile.all_visible || values_beyond_numbers == 0)
            sum_chunk(chunk);
        else
            sum_seen_of_chunk(chunk);
    }
}

void start_rows(uint part) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint element = state_element(row_of_tile(rows, tile_row(r)), part);
        row_states[r] = softmax_empty();
        if (resumes()) row_states[r] = load_state(element);
        if (column() != 0) row_states[r].sum = 0.0;
        [[unroll]] for (uint block = 0; block < BLOCKS; ++block) {
            vec4 sum = vec4(0);
            if (resumes() && dim_of(block) < V_HEAD_DIM) sum = load_state_block(element, dim_of(block) / 4);
            sums[r * BLOCKS + block] = sum;
        }
    }
}

// The sums of all columns, in their order.
void join_columns() {
    float of_column[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) of_column[r] = row_states[r].sum;
    show_columns(of_column);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) row_states[r].sum = 0.0;
    [[dont_unroll]] for (uint i = 0; i < COLUMNS / COMPONENTS; ++i) [[unroll]] for (uint r = 0; r < ROWS; ++r)
        row_states[r]
            .sum += sum_of(FROM_COMPONENTS(shown_columns(r, i)));
}

// Stores the first block of sums and lets the next one take its place: a loop over blocks, whose code stands there once,
// cannot index registers.
void store_next(Row row, uint part, uint block, float scale) {
    if (leaves_states())
        store_state_block(state_element(row, part), dim_of(block), sums[0]);
    else
        store_output_block(output_element(row), dim_of(block), modify_output(sums[0] * scale, row, dim_of(block)));
    [[unroll]] for (uint i = 1; i < ROWS * BLOCKS; ++i) sums[i - 1] = sums[i];
}

// What the sums are multiplied with. State and log_sum_exp are one column's to store.
float finish_state(SoftmaxState state, Row row, uint part, bool stores) {
    if (leaves_states()) {
        if (stores) store_state(state_element(row, part), state);
        return 1.0;
    }
    float rescale = softmax_denominator_scale(state, row);
    if (stores) store_log_sum_exp(state, row);
    return normaliser_of(state, rescale);
}

void finish_rows(uint part) {
    join_columns();
    [[dont_unroll]] for (uint r = 0; r < ROWS; ++r) {
        bool exists = rows.first + tile_row(r) < rows.end;
        Row row = row_of_tile(rows, tile_row(r));
        float scale = finish_state(row_states[0], row, part, exists && column() == 0);
        [[dont_unroll]] for (uint block = 0; block < BLOCKS; ++block)
            store_next(row, part, exists ? block : VALUE_ELEMENTS * BLOCKS_OF_VALUE * COLUMNS, scale);
        [[unroll]] for (uint i = 1; i < ROWS; ++i) row_states[i - 1] = row_states[i];
    }
}

void main() {
    uint group = workgroup().x;
    uint part = group % parts();
    rows = row_tile_of_grid(group / parts(), TILE_ROWS);
    if (is_empty(rows)) return; // the whole workgroup
    KeyWalk walk = begin_walk(rows, part, KEYS, KEYS);
    if (resumes() && leaves_states() && walk.slots.begin >= walk.slots.end) return; // the states stay as they are
    start_rows(part);
    if (lane() == 0) values_beyond_numbers = 0;
    if (QUERY_STAGED != 0) stage_query(0);
    [[dont_unroll]] for (; next_tile(walk, KEYS); pass_tile(walk, KEYS)) attend_tile(tile_of_walk(walk, KEYS));
    finish_rows(part);
}
