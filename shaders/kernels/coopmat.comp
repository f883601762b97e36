// Attention with online softmax on matrix units (VK_KHR_cooperative_matrix): f16 factors, or bf16 where BFLOAT16 is
// defined; f32 sums. Where REDUCTIONS is defined, with those of VK_NV_cooperative_matrix2.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (row tiles of a KV head's GROUP * Lq rows, times parts, Hkv, B)
//
// A subgroup owns MATRIX_N query rows and the sums of their output, or a DIM_SUBGROUPS-th of it; the workgroup shares
// each tile of K and V in shared memory. Both products are transposed: K Q^T and V^T P^T have the query rows for
// columns, so that a row's scores lie side by side, and what multiplies a row's sums is the same for a whole column.
// Where rows are few, a workgroup attends one part of their keys, and merge_parts joins the parts.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#ifdef REDUCTIONS
#extension GL_NV_cooperative_matrix2 : require
#endif
#ifdef BFLOAT16
#extension GL_EXT_bfloat16 : require
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

layout(local_size_x_id = 0) in;

#include "attention/key_walk.glsl"
#include "attention/output.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"
#include "kernels/coopmat/lanes.glsl"
#include "kernels/coopmat/matrices.glsl"
#include "kernels/coopmat/tiles.glsl"
#ifdef REDUCTIONS
#include "kernels/coopmat/softmax_registers.glsl"
#else
#include "kernels/coopmat/softmax.glsl"
#endif

void load_query_tile(uint t, out QUERY_MATRIX tile) {
    coopMatLoad(tile, tiles, QUERY_TILE + subgroup_row() * QUERY_PITCH + t * MATRIX_K / 8, QUERY_PITCH,
                gl_CooperativeMatrixLayoutColumnMajor);
}

void start_query() {
    stage_query();
    if (gl_LocalInvocationID.x == 0) last_special = 0;
    barrier();
    if (QUERY_IN_REGISTERS == 0) return;
    FOR_MATRICES(t, QUERY_TILES) load_query_tile(t, query_tiles[t]);
}

void score_chunk(uint chunk) {
    const uint steps = KEY_CHUNK / MATRIX_K;
    FOR_MATRICES(step, steps) {
        QUERY_MATRIX query;
        if (QUERY_IN_REGISTERS != 0)
            query = query_tiles[chunk * steps + step];
        else
            load_query_tile(chunk * steps + step, query);
        FOR_MATRICES(k, KEY_TILES) {
            KEY_MATRIX keys;
            coopMatLoad(keys, tiles, key_of_product(k) * PITCH + step * MATRIX_K / 8, PITCH,
                        gl_CooperativeMatrixLayoutRowMajor);
            products[k] = coopMatMulAdd(keys, query, products[k]);
        }
    }
}

void load_value_tile(uint key, uint t, out VALUE_MATRIX values) {
    coopMatLoad(values, tiles, VALUE_TILE + key * PITCH + dim_of_output(t) / 8, PITCH,
                gl_CooperativeMatrixLayoutColumnMajor);
}

void sum_chunk(uint chunk) {
    FOR_MATRICES(step, KEYS_OF_TILE / MATRIX_K) {
        uint key = step * MATRIX_K;
        WEIGHT_MATRIX weights;
        load_weights(key, weights);
        FOR_MATRICES(t, OUTPUT_TILES_OF_CHUNK) {
            VALUE_MATRIX values;
            load_value_tile(key, t, values);
            uint tile = chunk * OUTPUT_TILES_OF_CHUNK + t;
            outputs[tile] = coopMatMulAdd(values, weights, outputs[tile]);
        }
    }
}

// The same of one part of the values, whose ones stand for infinities: two factors whose product is none of the
// numbers.
void sum_part_of_chunk(uint chunk, float first_factor, float second_factor) {
    FOR_MATRICES(t, OUTPUT_TILES_OF_CHUNK) {
        ACCUMULATOR sum = ACCUMULATOR(0.0);
        FOR_MATRICES(step, KEYS_OF_TILE / MATRIX_K) {
            WEIGHT_MATRIX weights;
            load_weights(step * MATRIX_K, weights);
            VALUE_MATRIX values;
            load_value_tile(step * MATRIX_K, t, values);
            sum = coopMatMulAdd(values, weights, sum);
        }
        outputs[chunk * OUTPUT_TILES_OF_CHUNK + t] += (sum * first_factor) * second_factor;
    }
}

// A hidden key's weight is 0, which adds nothing to a row even where its value is not a number.
void sum_special_chunk(KeyTile tile, uint chunk, uint number) {
    [[dont_unroll]] for (uint part = VALUES_FINITE; part <= VALUES_MINUS_INFINITY; ++part) {
        barrier(); // the tile's last readers are done
        stage_values(tile, chunk, part, number);
        barrier();
        float factor = part == VALUES_FINITE ? 1.0 : 3.0e38;
        sum_part_of_chunk(chunk, factor, part == VALUES_MINUS_INFINITY ? -factor : factor);
    }
}

uint stagings = 0; // of values, so far

void attend_tile(KeyTile tile) {
    barrier(); // the tiles' last readers are done
    if (WHOLE_ROWS) {
        ++stagings;
        stage_keys(tile, 0, stagings);
        if (VALUE_IN_KEY == 0) stage_values(tile, 0, VALUES_ALL, stagings);
        barrier();
    }
    FOR_MATRICES(k, KEY_TILES) products[k] = ACCUMULATOR(0.0);
    FOR_MATRICES(chunk, KEY_CHUNKS) {
        if (!WHOLE_ROWS) {
            if (chunk > 0) barrier();
            stage_keys(tile, chunk, stagings);
            barrier();
        }
        score_chunk(chunk);
    }
    apply_softmax(tile);
    FOR_MATRICES(chunk, VALUE_CHUNKS) {
        if (!WHOLE_ROWS) {
            barrier();
            stage_values(tile, chunk, VALUES_ALL, ++stagings);
            barrier();
        }
        if (HIDES_KEYS == 0 || tile.all_visible || last_special != stagings)
            sum_chunk(chunk);
        else
            sum_special_chunk(tile, chunk, stagings);
    }
}

// To the output, or to where the states of parts wait.
void store_block(uint tile_row, uint part, uint dim, vec4 block) {
    Row row = row_of_tile(rows, tile_row);
    if (leaves_states())
        store_state_block(state_element(row, part), dim, block);
    else
        store_output_block(output_element(row), dim, block);
}

void store_rows(uint part) {
    const uint blocks = MATRIX_M / 4;
    uint strip = gl_SubgroupID * MATRIX_N * STRIP_PITCH;
    FOR_MATRICES(t, OUTPUT_TILES) {
        coopMatStore(outputs[t], tiles, strip, STRIP_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        subgroupBarrier();
        uint dim = t / OUTPUT_TILES_OF_CHUNK * VALUE_CHUNK + dim_of_output(t % OUTPUT_TILES_OF_CHUNK);
        FOR_MATRICES(turn, (MATRIX_N * blocks + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE) {
            uint i = turn * SUBGROUP_SIZE + gl_SubgroupInvocationID;
            uint tile_row = subgroup_row() + i / blocks;
            if (i < MATRIX_N * blocks && rows.first + tile_row < rows.end)
                store_block(tile_row, part, dim + i % blocks * 4,
                            uintBitsToFloat(tiles[strip + i / blocks * STRIP_PITCH + i % blocks]));
        }
        subgroupBarrier(); // the strip's last readers are done
    }
}

// What there is one of for each row; row_factors become what its sums are to be divided by.
void finish_states(uint part) {
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        Row row = row_of_tile(rows, lane_row(r));
        SoftmaxState state = states[r];
        float rescale = leaves_states() ? 1.0 : softmax_denominator_scale(state, row);
        bool stores = lane_of_row() == 0 && rows.first + lane_row(r) < rows.end;
        if (!leaves_states() && stores) store_log_sum_exp(state, row);
        if (leaves_states() && stores) store_state(state_element(row, part), state);
        if (!leaves_states() && lane_of_row() == 0)
            row_factors[lane_row(r)] = state.sum > 0.0 ? rescale / state.sum : 0.0;
    }
}

void main() {
    uint group = push.first_group + gl_WorkGroupID.x;
    uint part = group % parts();
    rows = row_tile(group / parts(), TILE_ROWS);
    if (is_empty(rows)) return; // the whole workgroup
    KeyWalk walk = begin_walk(rows, part, KEYS_OF_TILE, 1);

    start_query();
    start_rows();
    FOR_MATRICES(t, OUTPUT_TILES) outputs[t] = ACCUMULATOR(0.0);
    for (uint key = walk.keys.begin; key < walk.keys.end; key += KEYS_OF_TILE) {
        KeyTile tile = tile_of_walk(walk, key, KEYS_OF_TILE);
        if (tile.seen) attend_tile(tile);
    }
    barrier(); // the tiles' last readers are done
    finish_rows();
    finish_states(part);
    synchronise_rows();
    if (!leaves_states()) multiply_rows();
    store_rows(part);
}
