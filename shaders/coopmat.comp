// Attention with online softmax on matrix units (VK_KHR_cooperative_matrix): f16 factors, or bf16 where BFLOAT16 is
// defined; f32 sums. Where REDUCTIONS is defined, with those of VK_NV_cooperative_matrix2.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (row tiles of a KV head's GROUP * Lq rows, times PARTS, Hkv, B)
// A subgroup owns MATRIX_N query rows and the sums of their output, or a DIM_SUBGROUPS-th of it; the workgroup shares
// each tile of K and V in shared memory. Both products are transposed: K Q^T and V^T P^T have the query rows for
// columns, so that a row's scores lie side by side, and what multiplies a row's sums is the same for a whole column.
// Few rows take PARTS workgroups each, whose states merge_parts joins.
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

#define WITH_VECTORS
#include "lib/attention_bindings.glsl"
#include "lib/sequence.glsl"
#include "lib/work.glsl"
#include "lib/blocks.glsl"
#include "lib/vectors.glsl"
#include "lib/mask.glsl"
#include "lib/score.glsl"
#include "lib/softmax.glsl"
#include "lib/dropout.glsl"
#include "lib/states.glsl"
#include "lib/matrix_element.glsl"
#include "lib/matrix_tiles.glsl"

#define KEY_MATRIX coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define QUERY_MATRIX coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define VALUE_MATRIX KEY_MATRIX
#define WEIGHT_MATRIX QUERY_MATRIX
#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>

// Loops over matrices are unrolled, so that each matrix has its registers: nothing in them may be a loop that is not, else
// compilers index the matrices at run time, through branches or memory. ROLLED: loops, for a compiler that takes very long
// over unrolled ones.
#ifdef ROLLED
#define FOR_MATRICES(i, n) [[dont_unroll]] for (uint i = 0; i < (n); ++i)
#else
#define FOR_MATRICES(i, n) [[unroll]] for (uint i = 0; i < (n); ++i)
#endif

const uint QUERY_TILES = QUERY_DIMS / MATRIX_K;
const uint KEY_TILES = KEYS_OF_TILE / (MATRIX_M * DIM_SUBGROUPS);
const uint OUTPUT_TILES_OF_CHUNK = VALUE_CHUNK / DIMS_OF_STRIP;
const uint OUTPUT_TILES = VALUE_CHUNKS * OUTPUT_TILES_OF_CHUNK;

QUERY_MATRIX query_tiles[QUERY_IN_REGISTERS != 0 ? QUERY_TILES : 1];
ACCUMULATOR products[KEY_TILES];
ACCUMULATOR outputs[OUTPUT_TILES];

uint key_of_product(uint k) { return (k * DIM_SUBGROUPS + dim_subgroup()) * MATRIX_M; }
uint dim_of_output(uint t) { return (t * DIM_SUBGROUPS + dim_subgroup()) * MATRIX_M; } // t: of a chunk

#include "lib/matrix_rows.glsl"
#ifdef REDUCTIONS
#include "lib/matrix_softmax_registers.glsl"
#else
#include "lib/matrix_softmax.glsl"
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
            uint place = chunk * OUTPUT_TILES_OF_CHUNK + t;
            outputs[place] = coopMatMulAdd(values, weights, outputs[place]);
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
void sum_special_chunk(uint first_key, uint end, uint chunk, uint number) {
    [[dont_unroll]] for (uint part = VALUES_FINITE; part <= VALUES_MINUS_INFINITY; ++part) {
        barrier(); // the tile's last readers are done
        stage_values(first_key, end, chunk, part, number);
        barrier();
        float factor = part == VALUES_FINITE ? 1.0 : 3.0e38;
        sum_part_of_chunk(chunk, factor, part == VALUES_MINUS_INFINITY ? -factor : factor);
    }
}

uint stagings = 0; // of values, so far

void attend_tile(uint first_key, uint end, bool all_visible) {
    barrier(); // the tiles' last readers are done
    if (WHOLE_ROWS) {
        ++stagings;
        stage_keys(first_key, end, 0, stagings);
        if (VALUE_IN_KEY == 0) stage_values(first_key, end, 0, VALUES_ALL, stagings);
        barrier();
    }
    FOR_MATRICES(k, KEY_TILES) products[k] = ACCUMULATOR(0.0);
    FOR_MATRICES(chunk, KEY_CHUNKS) {
        if (!WHOLE_ROWS) {
            if (chunk > 0) barrier();
            stage_keys(first_key, end, chunk, stagings);
            barrier();
        }
        score_chunk(chunk);
    }
    soften_tile(first_key, end, all_visible);
    FOR_MATRICES(chunk, VALUE_CHUNKS) {
        if (!WHOLE_ROWS) {
            barrier();
            stage_values(first_key, end, chunk, VALUES_ALL, ++stagings);
            barrier();
        }
        if (HIDES_KEYS == 0 || all_visible || last_special != stagings)
            sum_chunk(chunk);
        else
            sum_special_chunk(first_key, end, chunk, stagings);
    }
}

// To the output, or to where the states of parts wait.
void store_block(uint tile_row, uint part, uint dim, vec4 block) {
    Row row = row_of_tile(tile_row);
    if (PARTS == 1) {
        store_output_block(output_element(row), dim, block);
        return;
    }
    uint element = state_element(row, part) + STATE_HEADER + dim;
    [[unroll]] for (uint i = 0; i < 4; ++i) if (dim + i < 4 * VALUE_BLOCKS) scores[element + i] = block[i];
}

void store_rows(uint part, uint last_row) {
    const uint blocks = MATRIX_M / 4;
    uint strip = gl_SubgroupID * MATRIX_N * STRIP_PITCH;
    FOR_MATRICES(t, OUTPUT_TILES) {
        coopMatStore(outputs[t], tiles, strip, STRIP_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
        subgroupBarrier();
        uint dim = t / OUTPUT_TILES_OF_CHUNK * VALUE_CHUNK + dim_of_output(t % OUTPUT_TILES_OF_CHUNK);
        FOR_MATRICES(turn, (MATRIX_N * blocks + SUBGROUP_SIZE - 1) / SUBGROUP_SIZE) {
            uint i = turn * SUBGROUP_SIZE + gl_SubgroupInvocationID;
            uint tile_row = subgroup_row() + i / blocks;
            if (i < MATRIX_N * blocks && first_row + tile_row <= last_row)
                store_block(tile_row, part, dim + i % blocks * 4,
                            uintBitsToFloat(tiles[strip + i / blocks * STRIP_PITCH + i % blocks]));
        }
        subgroupBarrier(); // the strip's last readers are done
    }
}

void store_state(uint tile_row, uint part, SoftmaxState state) {
    uint element = state_element(row_of_tile(tile_row), part);
    scores[element] = state.maximum;
    scores[element + 1] = state.sum;
}

// What there is one of for each row; row_factors become what its sums are to be divided by.
void finish_states(uint part, uint last_row) {
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        Row row = row_of_tile(lane_row(r));
        SoftmaxState state = states[r];
        float rescale = PARTS == 1 ? softmax_denominator_scale(state, row) : 1.0;
        bool stores = lane_of_row() == 0 && first_row + lane_row(r) <= last_row;
        if (PARTS == 1 && stores) store_log_sum_exp(state, row);
        if (PARTS > 1 && stores) store_state(lane_row(r), part, state);
        if (PARTS == 1 && lane_of_row() == 0) row_factors[lane_row(r)] = state.sum > 0.0 ? rescale / state.sum : 0.0;
    }
}

void main() {
    uint rows = rows_of_kv_head(gl_WorkGroupID.z);
    uint group = push.first_group + gl_WorkGroupID.x;
    uint part = group % PARTS;
    first_row = group / PARTS * TILE_ROWS;
    if (first_row >= rows) return; // a sequence shorter than the longest: the whole workgroup
    uint last_row = min(first_row + TILE_ROWS, rows) - 1;
    KeyRange range = seen_by_any(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    KeyRange full = seen_by_all(gl_WorkGroupID.z, first_row / GROUP, last_row / GROUP);
    range = part_of_range(range, part, PARTS, KEYS_OF_TILE);

    start_query();
    start_rows();
    FOR_MATRICES(t, OUTPUT_TILES) outputs[t] = ACCUMULATOR(0.0);
    for (uint key = range.begin; key < range.end; key += KEYS_OF_TILE) {
        Tile tile = Tile(gl_WorkGroupID.z, gl_WorkGroupID.y, first_row, last_row, key, key + KEYS_OF_TILE - 1);
        Blocks blocks = blocks_of(tile);
        if (!blocks.seen) continue;
        attend_tile(key, range.end,
                    key >= full.begin && key + KEYS_OF_TILE <= min(full.end, range.end) && blocks.whole &&
                        keys_exist(gl_WorkGroupID.z, key, key + KEYS_OF_TILE));
    }
    barrier(); // the tiles' last readers are done
    finish_rows();
    finish_states(part, last_row);
    synchronise_rows();
    if (PARTS == 1) multiply_rows();
    store_rows(part, last_row);
}
