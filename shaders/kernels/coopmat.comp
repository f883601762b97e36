// Attention with online softmax on matrix units (VK_KHR_cooperative_matrix): f16 factors, or bf16 where BFLOAT16 is
// defined; f32 sums.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (row tiles of a KV head's GROUP * Lq rows, times parts, Hkv, B), packed queries as in attention/rows.glsl
//
// With LOADS_AHEAD the next tile's keys are on their way while a tile is attended: kernels/coopmat/ahead.glsl.
//
// A subgroup owns ROW_MATRICES matrices of query rows, and the scores of a DIM_SUBGROUPS-th of the keys and the sums of a
// DIM_SUBGROUPS-th of the output's dims. The workgroup shares each tile of K and V in shared memory, where V lies
// transposed, so that both products read rows of neighbours. Where rows are few, a workgroup attends one part of their
// keys, and merge_parts joins the parts.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifndef EMULATED_SUBGROUPS
#extension GL_KHR_cooperative_matrix : require
#ifdef LOADS_AHEAD
#extension GL_NV_cooperative_matrix2 : require
#endif
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#ifdef BFLOAT16
#extension GL_EXT_bfloat16 : require
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#endif

layout(local_size_x_id = 0) in;

#include "kernels/coopmat/formats.glsl" // before what reads keys

#ifndef SCORE_MOD // which comes between softcap and ALiBi
#define TRANSFORMED_BEFORE (1u - (FEATURES / FEATURE_ALIBI_SLOPES & MORE_FEATURES / MORE_FEATURE_KEY_INDICES & 1u))
#endif
#include "attention/key_walk.glsl"
#include "attention/output.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"
#include "kernels/coopmat/matrices.glsl"
#include "kernels/coopmat/softmax.glsl"
#include "kernels/coopmat/staging.glsl"
#include "kernels/coopmat/tiles.glsl"

// Into registers, through the subgroup's strip, in straight code: in a loop or behind a condition, compilers move them.
void load_query() {
    const uint vectors = STRIP_PITCH - 1;
    const uint steps = vectors * 8 < MATRIX_K ? 1 : vectors * 8 / MATRIX_K; // less: such queries are not in registers
    const bool strips_end_with_rows = QUERY_DIMS / 8 % vectors == 0;
    FOR_MATRICES(first, (QUERY_TILES + steps - 1) / steps) {
        FOR_MATRICES(turn, (SUBGROUP_ROWS * vectors + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE) {
            uint i = turn * SUBGROUP_SIZE + lane();
            uint vector = first * vectors + i % vectors;
            if (!strips_end_with_rows) vector = min(vector, QUERY_DIMS / 8 - 1); // what lies behind a row is not read
            if (i < SUBGROUP_ROWS * vectors)
                tiles[strip() + i / vectors * STRIP_PITCH + i % vectors] =
                    load_query_whole(row_of_tile(rows, subgroup_row() + i / vectors), vector * 8);
        }
        subgroupBarrier();
        FOR_MATRICES(r, ROW_MATRICES)
        FOR_MATRICES(step, steps)
        if (first * steps + step < QUERY_TILES)
            coopMatLoad(query_tiles[r * QUERY_TILES + first * steps + step], tiles,
                        strip() + r * MATRIX_M * STRIP_PITCH + step * MATRIX_K / 8, STRIP_PITCH, ROWS_IN_MEMORY);
        subgroupBarrier(); // the strip's last readers are done
    }
}

void start_query() {
    if (invocation() == 0) last_special = last_slow = 0;
    if (QUERY_IN_REGISTERS != 0)
        load_query();
    else
        stage_query();
}

void query_of_step(uint r, uint step, out QUERY_MATRIX query) {
    if (QUERY_IN_REGISTERS != 0)
        query = query_tiles[r * QUERY_TILES + step];
    else
        coopMatLoad(query, tiles, QUERY_TILE + (subgroup_row() + r * MATRIX_M) * QUERY_PITCH + step * MATRIX_K / 8,
                    QUERY_PITCH, ROWS_IN_MEMORY);
}

void keys_of_step(uint k, uint step, out KEY_MATRIX keys) {
    coopMatLoad(keys, tiles, key_of_tile(k) * KEY_PITCH + step * MATRIX_K / 8, KEY_PITCH, COLUMNS_IN_MEMORY);
}

void score_chunk(uint chunk) {
    const uint steps = DIMS_OF_CHUNK / MATRIX_K;
    FOR_MATRICES(step, steps) FOR_MATRICES(r, ROW_MATRICES) {
        QUERY_MATRIX query;
        query_of_step(r, chunk * steps + step, query);
        FOR_MATRICES(k, KEY_TILES) {
            KEY_MATRIX keys;
            keys_of_step(k, step, keys);
            scores_of_tile[r * KEY_TILES + k] = coopMatMulAdd(query, keys, scores_of_tile[r * KEY_TILES + k]);
        }
    }
}

// What the minimums of a block's keys add: times the sum of the query's dims, which is its product with ones.
void add_minimums(uint chunk, uint block, uint r, uint k) {
    const uint steps = BLOCK_DIMS / MATRIX_K;
    SUMS sum = ZEROS, minimums; // every row of them the same: a stride of 0
    KEY_MATRIX ones = ONES_OF_B;
    FOR_MATRICES(i, steps) {
        QUERY_MATRIX query;
        query_of_step(r, chunk * (DIMS_OF_CHUNK / MATRIX_K) + block * steps + i, query);
        sum = coopMatMulAdd(query, ones, sum);
    }
    uint at = SCALES_OF_CHUNK + (block * KEYS_OF_TILE + key_of_tile(k)) / 4;
    coopMatLoad(minimums, key_scales, at, 0, ROWS_IN_MEMORY);
    MULTIPLY_MATRIX(sum, minimums);
    ADD_TO_MATRIX(scores_of_tile[r * KEY_TILES + k], sum);
}

// Of quantised keys: block after block.
void score_quantised_chunk(uint chunk) {
    const uint steps = BLOCK_DIMS / MATRIX_K;
    FOR_MATRICES(block, BLOCKS_OF_CHUNK) FOR_MATRICES(r, ROW_MATRICES) FOR_MATRICES(k, KEY_TILES) {
        SUMS sum = ZEROS, scales; // every row of them the same: a stride of 0
        FOR_MATRICES(i, steps) {
            uint step = block * steps + i;
            QUERY_MATRIX query;
            query_of_step(r, chunk * (DIMS_OF_CHUNK / MATRIX_K) + step, query);
            KEY_MATRIX keys;
            keys_of_step(k, step, keys);
            sum = coopMatMulAdd(query, keys, sum);
        }
        coopMatLoad(scales, key_scales, (block * KEYS_OF_TILE + key_of_tile(k)) / 4, 0, ROWS_IN_MEMORY);
        MULTIPLY_MATRIX(sum, scales);
        ADD_TO_MATRIX(scores_of_tile[r * KEY_TILES + k], sum);
        if (KEY_HAS_MINIMUM != 0) add_minimums(chunk, block, r, k);
    }
}

void score_staged_chunk(uint chunk) {
    if (KEY_IS_QUANTISED == 0)
        score_chunk(chunk);
    else
        score_quantised_chunk(chunk);
}

void score_next_chunk(KeyTile tile, uint chunk) {
    if (chunk > 0) {
        barrier(); // the last readers of the one before are done
        stage_keys(tile, chunk);
        barrier();
    }
    score_staged_chunk(chunk);
}

// Chunk 0 is there. In a loop over chunks that stays one, query rows come from shared memory.
void score_tile(KeyTile tile) {
    FOR_MATRICES(t, ROW_MATRICES * KEY_TILES) scores_of_tile[t] = ZEROS;
    if (KEY_CHUNKS == 1)
        score_staged_chunk(0);
    else if (QUERY_IN_REGISTERS != 0)
        FOR_MATRICES(chunk, KEY_CHUNKS) score_next_chunk(tile, chunk);
    else [[dont_unroll]]
        for (uint chunk = 0; chunk < KEY_CHUNKS; ++chunk) score_next_chunk(tile, chunk);
}

// step: of a chunk of the tile's keys.
void load_weights(uint r, uint chunk, uint step, out WEIGHT_MATRIX weights) {
#ifdef LOADS_AHEAD
    if (KEEPS_WEIGHTS != 0) {
        weights = WEIGHT_MATRIX(scores_of_tile[r * KEY_TILES + step]);
        return;
    }
#endif
    uint at = weights_of_rows() + r * MATRIX_M * WEIGHT_PITCH + (chunk * KEYS_OF_CHUNK + step * MATRIX_K) / 8;
    coopMatLoad(weights, tiles, at, WEIGHT_PITCH, ROWS_IN_MEMORY);
}

void load_values(uint t, uint step, out VALUE_MATRIX values) {
#ifdef LOADS_AHEAD
    coopMatLoad(values, tiles, VALUE_TILE + step * MATRIX_K * VALUE_PITCH + dim_of_output(t) / 8, VALUE_PITCH,
                ROWS_IN_MEMORY);
#else
    coopMatLoad(values, tiles, VALUE_TILE + dim_of_output(t) * VALUE_PITCH + step * MATRIX_K / 8, VALUE_PITCH,
                COLUMNS_IN_MEMORY);
#endif
}

void sum_chunk(uint chunk) {
    FOR_MATRICES(step, KEYS_OF_CHUNK / MATRIX_K) {
        WEIGHT_MATRIX weights[ROW_MATRICES];
        FOR_MATRICES(r, ROW_MATRICES) load_weights(r, chunk, step, weights[r]);
        FOR_MATRICES(t, OUTPUT_TILES) {
            VALUE_MATRIX values;
            load_values(t, step, values);
            FOR_MATRICES(r, ROW_MATRICES)
            outputs[r * OUTPUT_TILES + t] = coopMatMulAdd(weights[r], values, outputs[r * OUTPUT_TILES + t]);
        }
    }
}

// The same of one part of the values. Where its ones stand for infinities, any weight of them adds one.
void sum_part_of_chunk(uint chunk, uint part) {
    float infinity = uintBitsToFloat(part == VALUES_MINUS_INFINITY ? 0xff800000u : 0x7f800000u);
    FOR_MATRICES(r, ROW_MATRICES) FOR_MATRICES(t, OUTPUT_TILES) {
        SUMS sum = ZEROS;
        FOR_MATRICES(step, KEYS_OF_CHUNK / MATRIX_K) {
            WEIGHT_MATRIX weights;
            load_weights(r, chunk, step, weights);
            VALUE_MATRIX values;
            load_values(t, step, values);
            sum = coopMatMulAdd(weights, values, sum);
        }
        if (part >= VALUES_PLUS_INFINITY)
            FOR_ELEMENTS(i, sum) sum[i] = sum[i] > 0.0 ? infinity : 0.0;
        else if (VALUE_IS_OF_BLOCKS && part == VALUES_LARGE)
            FOR_ELEMENTS(i, sum) sum[i] *= UNIT_OF_LARGE_VALUES;
        ADD_TO_MATRIX(outputs[r * OUTPUT_TILES + t], sum);
    }
}

// One part after the other. A hidden key's weight is 0, which adds nothing to a row even where its value is not a number.
void sum_parts(KeyTile tile, ValueStaging staging) {
    [[dont_unroll]] for (staging.part = VALUES_FINITE; staging.part <= VALUES_MINUS_INFINITY; ++staging.part) {
        if (!VALUE_IS_OF_BLOCKS && staging.part == VALUES_LARGE) continue;
        stages_large_values = staging.part != VALUES_FINITE; // or infinite ones
        barrier();                                           // the last readers of what lies there are done
        stage_values_in_turn(tile, staging);
        barrier();
        sum_part_of_chunk(staging.chunk, staging.part);
    }
    stages_large_values = false;
}

// By parts, where some row does not see some key, and some value is not finite; of quantised blocks, where one is too large.
void stage_and_sum(KeyTile tile, ValueStaging staging) {
    if (TAKES_TURNS != 0) {
        barrier(); // the last readers of what lies there are done
        stage_values(tile, staging);
        barrier();
    }
    if ((!VALUE_IS_OF_BLOCKS && (HIDES_KEYS == 0 || tile.all_visible)) || last_special != staging.number)
        sum_chunk(staging.chunk);
    else
        sum_parts(tile, staging);
}

// V beside K is there, whole.
void sum_tile(KeyTile tile, uint number) {
    if (TAKES_TURNS == 0) synchronise_rows();
    if (VALUE_CHUNKS == 1) {
        stage_and_sum(tile, ValueStaging(0, VALUES_ALL, number));
        return;
    }
    [[dont_unroll]] for (uint chunk = 0; chunk < VALUE_CHUNKS; ++chunk)
        stage_and_sum(tile, ValueStaging(chunk, VALUES_ALL, number + chunk));
}

// number: of the tile's first staging of values, from 1 on.
void attend_tile(KeyTile tile, uint number) {
    barrier(); // the tiles' last readers are done
    stage_keys(tile, 0);
    stage_value_exponents(tile);
    if (TAKES_TURNS == 0) stage_values(tile, ValueStaging(0, VALUES_ALL, number));
    barrier();
    score_tile(tile);
    apply_softmax(tile, number);
    sum_tile(tile, number);
}

void attend_tiles(KeyWalk walk) {
    uint stagings = 1; // of values, so far, and one
    for (; next_tile(walk, KEYS_OF_TILE); pass_tile(walk, KEYS_OF_TILE)) {
        hidden_zero = stagings >> 31;
        attend_tile(tile_of_walk(walk, KEYS_OF_TILE), stagings);
        stagings += VALUE_CHUNKS;
    }
    hidden_zero = stagings >> 31;
}

#ifdef LOADS_AHEAD
#include "kernels/coopmat/ahead.glsl"
#endif

// Blocks of four of a matrix in the strip, of which an invocation stores one a turn.
const uint STORE_TURNS = (MATRIX_M * BLOCKS_OF_ROW + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE;
uint stored_block(uint turn) { return turn * SUBGROUP_SIZE + lane(); }

// Where the rows begin of which an invocation stores blocks, in the output, or where the states of parts wait.
const uint NO_ROW = 0xffffffffu;

void find_stored_rows(uint first_row, uint part, out uint elements[STORE_TURNS]) {
    [[unroll]] for (uint turn = 0; turn < STORE_TURNS; ++turn) {
        uint matrix_row = stored_block(turn) / BLOCKS_OF_ROW, tile_row = first_row + matrix_row;
        Row row = row_of_tile(rows, tile_row);
        bool exists = matrix_row < MATRIX_M && rows.first + tile_row < rows.end;
        uint element = leaves_states() ? state_element(row, part) : output_element(row);
        elements[turn] = exists ? element : NO_ROW;
    }
}

// In the strip, what output_mod makes of the blocks that this invocation stores.
#ifdef OUTPUT_MOD
void modify_strip(uint first_row, uint dim) {
    if (leaves_states()) return;
    [[unroll]] for (uint turn = 0; turn < STORE_TURNS; ++turn) {
        uint row = stored_block(turn) / BLOCKS_OF_ROW, block = stored_block(turn) % BLOCKS_OF_ROW;
        if (row >= MATRIX_M) continue;
        uint at = strip() + row * STRIP_PITCH + block;
        vec4 values = uintBitsToFloat(tiles[at]);
        tiles[at] = floatBitsToUint(modify_output(values, row_of_tile(rows, first_row + row), dim + 4 * block));
    }
}
#else
#define modify_strip(first_row, dim)
#endif

void store_strip(const uint elements[STORE_TURNS], uint dim) {
    [[unroll]] for (uint turn = 0; turn < STORE_TURNS; ++turn) {
        uint row = stored_block(turn) / BLOCKS_OF_ROW, block = stored_block(turn) % BLOCKS_OF_ROW;
        if (elements[turn] == NO_ROW) continue;
        vec4 values = uintBitsToFloat(tiles[strip() + row * STRIP_PITCH + block]);
        if (leaves_states())
            store_state_block(elements[turn], dim + 4 * block, values);
        else
            store_output_block(elements[turn], dim + 4 * block, values);
    }
}

// Through the strip, a matrix at a time.
void store_outputs(uint part) {
    FOR_MATRICES(r, ROW_MATRICES) {
        uint elements[STORE_TURNS];
        find_stored_rows(subgroup_row() + r * MATRIX_M, part, elements);
        [[dont_unroll]] for (uint current = 0; current < OUTPUT_TILES; ++current) {
            FOR_MATRICES(t, OUTPUT_TILES)
            if (t == current) coopMatStore(outputs[r * OUTPUT_TILES + t], tiles, strip(), STRIP_PITCH, ROWS_IN_MEMORY);
            subgroupBarrier();
            modify_strip(subgroup_row() + r * MATRIX_M, dim_of_output(current));
            store_strip(elements, dim_of_output(current));
            subgroupBarrier(); // the strip's last readers are done
        }
    }
}

// What there is one of for each row. What its sums are to be multiplied with.
float finish_state(SoftmaxState state, uint tile_row, uint part) {
    Row row = row_of_tile(rows, tile_row);
    float kept = has(FEATURE_DROPOUT) ? parameters.dropout_scale : 1.0;
    if (SCALES_VALUES && !SCALES_VALUES_BY_KEY) kept *= value_scale(row, Key(0)); // all keys' own
    bool stores = owns_rows() && rows.first + tile_row < rows.end;
    if (leaves_states()) {
        if (stores) store_state(state_element(row, part), state);
        return kept;
    }
    float rescale = softmax_denominator_scale(state, row);
    if (stores) store_log_sum_exp(state, row);
    return normaliser_of(state, kept * rescale);
}

void finish_rows(uint part) {
    float totals[ROWS_OF_LANE];
    sum_columns(totals);
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        uint tile_row = subgroup_row() + lane_row(r);
        SoftmaxState state = SoftmaxState(lane_empty[r] ? LOWEST_MAXIMUM : OF_ROW(row_references, tile_row), totals[r]);
        float factor = finish_state(state, tile_row, part);
        if (owns_rows()) OF_ROW(row_factors, tile_row) = factor;
    }
    synchronise_rows();
    FOR_MATRICES(r, ROW_MATRICES) {
        SUMS factors;
        LOAD_ROWS(factors, row_factors, r);
        FOR_MATRICES(t, OUTPUT_TILES) MULTIPLY_MATRIX(outputs[r * OUTPUT_TILES + t], factors);
    }
}

void main() {
    uint group = workgroup().x;
    uint part = group % parts();
    rows = row_tile_of_grid(group / parts(), TILE_ROWS);
    if (is_empty(rows)) return; // the whole workgroup
    KeyWalk walk = begin_walk(rows, part, KEYS_OF_TILE, 1);

    start_query();
    start_rows();
    FOR_MATRICES(t, ROW_MATRICES * OUTPUT_TILES) outputs[t] = ZEROS;
#ifdef LOADS_AHEAD
    attend_tiles_ahead(walk);
#else
    attend_tiles(walk);
#endif
    barrier(); // the tiles' last readers are done
    finish_rows(part);
    store_outputs(part);
}
