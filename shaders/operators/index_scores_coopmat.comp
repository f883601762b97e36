// Scores of blocks of keys for queries on matrix units (VK_KHR_cooperative_matrix), as ranks: what index selects of. Factors of f16,
// or bf16 where BFLOAT16 is defined; f32 sums.
//
// query [B,Hi,Lq,D], key [B,1,Lk,D], weights [B,Lq,Hi] -> ranks [rows,blocks] of rows first_row ..: as operators/index_scores.comp
// grid: (tiles of keys, tiles of ROWS queries). A subgroup holds ROW_MATRICES matrices of keys in registers, and each query's heads pass
// by, which are whole matrices: products of a key with a matrix of heads are weighted in registers, where those of all matrices are
// summed, and the sums of the heads of a matrix in shared memory.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifndef EMULATED_SUBGROUPS
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef BFLOAT16
#extension GL_EXT_bfloat16 : require
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#endif

layout(local_size_x_id = 0) in;

#include "attention/key_value.glsl"
#include "attention/query.glsl"
#include "operators/index_ranks.glsl"

#include "common/matrices.glsl" // of the tensors' constants

const uint SUBGROUPS = WORKGROUP_SIZE / SUBGROUP_SIZE;
const uint SUBGROUP_KEYS = ROW_MATRICES * MATRIX_M;
const uint TILE_KEYS = SUBGROUPS * SUBGROUP_KEYS; // whole blocks
const uint STEPS = HEAD_DIM / MATRIX_K;
const uint VECTORS = HEAD_DIM / 8; // of a key

// In shared memory: a query's heads, HEADS_OF_CHUNK at a time, where keys pass on their way to registers, and each subgroup's sums on
// their way to one sum; then weights of heads, and scales of keys. Rows have gaps behind them, so that neighbours lie in other banks.
const uint HEADS_OF_CHUNK = GROUP < MOST_HEADS_OF_CHUNK ? GROUP : MOST_HEADS_OF_CHUNK;
const uint VECTOR_PITCH = VECTORS + 1;
const uint SUM_PITCH = MATRIX_N / 4 + 1;
const uint HEADS_SIZE = HEADS_OF_CHUNK * VECTOR_PITCH, KEYS_SIZE = SUBGROUPS * MATRIX_M * VECTOR_PITCH;
const uint STRIP_SIZE = SUBGROUP_KEYS * SUM_PITCH;
const uint FACTORS_SIZE = HEADS_SIZE > KEYS_SIZE ? HEADS_SIZE : KEYS_SIZE;
const uint WEIGHTS = FACTORS_SIZE > SUBGROUPS *STRIP_SIZE ? FACTORS_SIZE : SUBGROUPS *STRIP_SIZE;
const uint SCALES = WEIGHTS + HEADS_OF_CHUNK / 4;
shared uvec4 tiles[SCALES + (SCALES_KEYS ? TILE_KEYS / 4 : 0)];
shared vec2 scores_of_keys[KEY_BLOCK_LEN > 1 ? TILE_KEYS : 1]; // (score, whether it is visible)

MATRIX_A keys[ROW_MATRICES * STEPS];
SUMS scales[SCALES_KEYS ? ROW_MATRICES : 1]; // of keys

uint first_key_of_tile() { return workgroup().x * TILE_KEYS; }
uint first_key_of_subgroup() { return subgroup_index() * SUBGROUP_KEYS; } // of the tile
uint strip() { return subgroup_index() * STRIP_SIZE; }

// Past the last there is that one once more, which is not stored.
Slot key_to_load(uint key) { return Slot(min(key, parameters.kv_len - 1)); }

uvec4 load_key_elements(Row row, Slot slot, uint dim) {
    if (KEY_FORMAT == MATRIX_FORMAT) return key_load8_halves(key_element(row, slot) + dim);
    return pack_vector(key_load_vector(KEY_FORMAT, has(FEATURE_KEY_PAIRS), has(FEATURE_KEY_ALIGNED),
                                       key_element(row, slot), dim, HEAD_DIM, KEY_DIM_STRIDE));
}

// Into registers, in straight code: in a loop, compilers move them.
void load_keys(Row row) {
    uint first_key = first_key_of_tile() + first_key_of_subgroup(), own = subgroup_index() * MATRIX_M * VECTOR_PITCH;
    barrier(); // the last readers of what lies there are done
    if (SCALES_KEYS) {
        for (uint i = gl_LocalInvocationID.x; i < TILE_KEYS; i += WORKGROUP_SIZE)
            tiles[SCALES + i / 4][i % 4] =
                floatBitsToUint(key_scale(row, Key(key_to_load(first_key_of_tile() + i).number)));
        barrier();
    }
    [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m) {
        [[unroll]] for (uint turn = 0; turn < (MATRIX_M * VECTORS + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE; ++turn) {
            uint i = turn * SUBGROUP_SIZE + subgroup_lane();
            if (i < MATRIX_M * VECTORS)
                tiles[own + i / VECTORS * VECTOR_PITCH + i % VECTORS] =
                    load_key_elements(row, key_to_load(first_key + m * MATRIX_M + i / VECTORS), i % VECTORS * 8);
        }
        subgroupBarrier();
        [[unroll]] for (uint step = 0; step < STEPS; ++step)
            coopMatLoad(keys[m * STEPS + step], tiles, own + step * MATRIX_K / 8, VECTOR_PITCH, ROWS_IN_MEMORY);
        if (SCALES_KEYS)
            coopMatLoad(scales[m], tiles, SCALES + (first_key_of_subgroup() + m * MATRIX_M) / 4, 0, COLUMNS_IN_MEMORY);
        subgroupBarrier(); // the place's last readers are done
    }
}

// What this invocation loads of a chunk of a query's heads, while others are multiplied.
const uint ITEMS = HEADS_OF_CHUNK * VECTORS;
const uint TURNS = (ITEMS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
const uint WEIGHT_TURNS = (HEADS_OF_CHUNK + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
uvec4 loaded_heads[TURNS];
float loaded_weights[WEIGHT_TURNS];

uint item_of(uint turn) { return turn * WORKGROUP_SIZE + gl_LocalInvocationID.x; }

// Past the last head there is that one once more, which no weight counts.
void load_heads(Row row, uint query, uint first) {
    uint element = query_element(row);
    [[unroll]] for (uint turn = 0; turn < TURNS; ++turn) {
        uint head = min(first + item_of(turn) / VECTORS, GROUP - 1);
        loaded_heads[turn] =
            query_load8_halves(element + head * parameters.query_strides[1] + item_of(turn) % VECTORS * 8);
    }
    [[unroll]] for (uint turn = 0; turn < WEIGHT_TURNS; ++turn) loaded_weights[turn] =
        weight_of(query, min(first + item_of(turn), GROUP - 1));
}

void stage_heads() {
    barrier(); // the last readers of what lies there are done
    [[unroll]] for (uint turn = 0; turn < TURNS; ++turn) if (item_of(turn) < ITEMS)
        tiles[item_of(turn) / VECTORS * VECTOR_PITCH + item_of(turn) % VECTORS] = loaded_heads[turn];
    [[unroll]] for (uint turn = 0; turn < WEIGHT_TURNS; ++turn) if (item_of(turn) < HEADS_OF_CHUNK)
        tiles[WEIGHTS + item_of(turn) / 4][item_of(turn) % 4] = floatBitsToUint(loaded_weights[turn]);
    barrier();
}

SUMS sums[ROW_MATRICES]; // of a query's heads

// weights: of a matrix's heads, every row of them the same.
void add_products(uint m, SUMS products, SUMS weights) {
    if (SCALES_KEYS) MULTIPLY_MATRIX(products, scales[m]);
    float scale = parameters.scale_log2 * LN_2;
    FOR_ELEMENTS(i, products) sums[m][i] += weights[i] * activate(scale * products[i]);
}

// Of the heads that are there, a matrix of them.
void multiply_heads(uint head) {
    SUMS products[ROW_MATRICES], weights;
    [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m) products[m] = ZEROS;
    [[unroll]] for (uint step = 0; step < STEPS; ++step) {
        MATRIX_B heads;
        coopMatLoad(heads, tiles, head * VECTOR_PITCH + step * MATRIX_K / 8, VECTOR_PITCH, COLUMNS_IN_MEMORY);
        [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m) products[m] =
            coopMatMulAdd(keys[m * STEPS + step], heads, products[m]);
    }
    coopMatLoad(weights, tiles, WEIGHTS + head / 4, 0, ROWS_IN_MEMORY);
    [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m) add_products(m, products[m], weights);
}

// Of a query whose first heads are loaded. Afterwards the strip has the sums, of each key as many as a matrix has heads, and the first
// heads of the next query are on their way.
void score_heads(Row row, Row next, uint query, uint next_query) {
    [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m) sums[m] = ZEROS;
    [[dont_unroll]] for (uint first = 0; first < GROUP; first += HEADS_OF_CHUNK) {
        stage_heads();
        if (first + HEADS_OF_CHUNK < GROUP)
            load_heads(row, query, first + HEADS_OF_CHUNK);
        else
            load_heads(next, next_query, 0);
        [[dont_unroll]] for (uint head = 0; head < min(HEADS_OF_CHUNK, GROUP - first); head += MATRIX_N)
            multiply_heads(head);
    }
    barrier(); // the heads' last readers are done
    [[unroll]] for (uint m = 0; m < ROW_MATRICES; ++m)
        coopMatStore(sums[m], tiles, strip() + m * MATRIX_M * SUM_PITCH, SUM_PITCH, ROWS_IN_MEMORY);
    subgroupBarrier();
}

// Of a key of this subgroup.
float sum_of_heads(uint key) {
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0; i < MATRIX_N / 4; ++i) sum += uintBitsToFloat(tiles[strip() + key * SUM_PITCH + i]);
    return sum.x + sum.y + (sum.z + sum.w);
}

bool is_visible(Row row, uint key) {
    return key < parameters.kv_len && has_key(row, Slot(key)) && mask_score(0.0, row, Key(key)) != HIDDEN;
}

// Of a block of this tile.
BlockScore score_of_block(uint block) {
    BlockScore visible = BlockScore(0.0, 0);
    [[dont_unroll]] for (uint key = block * KEY_BLOCK_LEN; key < (block + 1) * KEY_BLOCK_LEN; ++key) {
        vec2 score = scores_of_keys[key];
        if (score.y != 0.0) visible = add_key(visible, score.x);
    }
    return visible;
}

void store_blocks(Row row, uint line) {
    const uint blocks = TILE_KEYS / KEY_BLOCK_LEN;
    uint first = workgroup().x * blocks;
    for (uint i = subgroup_lane(); i < SUBGROUP_KEYS; i += SUBGROUP_SIZE)
        scores_of_keys[first_key_of_subgroup() + i] =
            vec2(sum_of_heads(i), is_visible(row, first_key_of_tile() + first_key_of_subgroup() + i) ? 1.0 : 0.0);
    barrier();
    for (uint block = gl_LocalInvocationID.x; block < blocks; block += WORKGROUP_SIZE)
        if (first + block < all_blocks())
            store_rank(line, first + block, rank_of_score(row, first + block, score_of_block(block)));
    barrier(); // the scores' last readers are done
}

void store_keys(Row row, uint line) {
    for (uint i = subgroup_lane(); i < SUBGROUP_KEYS; i += SUBGROUP_SIZE) {
        uint key = first_key_of_tile() + first_key_of_subgroup() + i;
        BlockScore score = BlockScore(sum_of_heads(i), is_visible(row, key) ? 1 : 0);
        if (key < all_blocks()) store_rank(line, key, rank_of_score(row, key, score));
    }
}

// Of a query that sees no key of this tile.
void store_nothing(uint line) {
    const uint blocks = TILE_KEYS / KEY_BLOCK_LEN;
    for (uint block = gl_LocalInvocationID.x; block < blocks; block += WORKGROUP_SIZE)
        if (workgroup().x * blocks + block < all_blocks())
            store_rank(line, workgroup().x * blocks + block, RANK_OF_NOTHING);
}

// Whether any query of these positions does.
bool see_tile(uint batch, uint first, uint last) {
    KeyRange seen = seen_by_any(batch, first, last);
    return seen.begin < first_key_of_tile() + TILE_KEYS && seen.end > first_key_of_tile();
}

// Of a line, or of the last before `end`.
uint query_of_line(uint line, uint end) { return push.first_row + min(line, end - 1); }
Row row_of_line(uint line, uint end, out bool exists) { return row_of_query(query_of_line(line, end), exists); }

// Lines from one on, all of a sequence, to the first that is not, or the end. row: of the first one's query; exists: that there is one.
void score_sequence(Row row, bool exists, inout uint line, uint end) {
    uint batch = row.batch;
    load_keys(row);
    load_heads(row, query_of_line(line, end), 0);
    [[dont_unroll]] while (line < end && row.batch == batch) {
        bool next_exists;
        Row next = row_of_line(line + 1, end, next_exists);
        if (exists && see_tile(row.batch, row.position, row.position)) {
            score_heads(row, next, query_of_line(line, end), query_of_line(line + 1, end));
            if (KEY_BLOCK_LEN > 1)
                store_blocks(row, line);
            else
                store_keys(row, line);
        } else {
            load_heads(next, query_of_line(line + 1, end), 0);
            store_nothing(line);
        }
        row = next;
        exists = next_exists;
        ++line;
    }
}

// Whatever the queries' sequences: of each, its keys are loaded once.
void main() {
    uint line = workgroup().y * ROWS, end = min(line + ROWS, push.end_row - push.first_row);
    [[dont_unroll]] while (line < end) {
        bool exists, last_exists;
        Row first = row_of_line(line, end, exists), last = row_of_line(end - 1, end, last_exists);
        bool is_one = last_exists && last.batch == first.batch; // a query of no sequence has no position
        if (is_one && !see_tile(first.batch, first.position, last.position)) {
            [[dont_unroll]] for (; line < end; ++line) store_nothing(line);
        } else {
            score_sequence(first, exists, line, end);
        }
    }
}
