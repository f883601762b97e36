// output = activation(input W^T + bias) * multiplier + residual on matrix units (VK_KHR_cooperative_matrix): f16 input
// and weights, or bf16 where BFLOAT16 is defined; f32 sums.
//
// input [B,L,in], W [out,in], bias [out], multiplier and residual [B,L,out]
//   -> output element o of row (b, l) at strides (b, l, o / head_dim, o % head_dim)
// grid: (output tiles, row tiles, groups). A subgroup computes TILES x ROW_TILES matrices of (outputs, rows), a workgroup
// of OUTPUT_SUBGROUPS x ROW_SUBGROUPS subgroups shares the input and the weights of MATRIX_STEP features in shared memory. There
// are FEATURE_SUBGROUPS times as many subgroups: each sums up a part of every step's features, and these sums are joined at the end,
// in the order of the parts. With LOADS_AHEAD the next features are on their way to registers meanwhile.
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

layout(local_size_x_id = 7) in;

#include "operators/linear_features.glsl"
#include "operators/linear_tensors.glsl"
#ifdef TRANSPOSED_FACTORS
#include "operators/linear_transposed.glsl"
#elif defined QUANTISED_WEIGHT
#include "operators/linear_blocks.glsl"
#endif

#include "common/matrices.glsl" // of the tensors' constants
#ifdef QUANTISED_WEIGHT
#include "common/rounded_halves.glsl"
#endif

const uint PITCH = MATRIX_STEP / 8 + 1; // of eight elements; neighbours lie in other banks
const uint SUBGROUPS = WORKGROUP_SIZE / SUBGROUP_SIZE;
const uint TILE_SUBGROUPS = SUBGROUPS / FEATURE_SUBGROUPS;
const uint OUTPUT_SUBGROUPS = TILE_SUBGROUPS / ROW_SUBGROUPS;
const uint SUBGROUP_OUTPUTS = TILES * MATRIX_M;
const uint SUBGROUP_ROWS = ROW_TILES * MATRIX_N;
const uint TILE_OUTPUTS = OUTPUT_SUBGROUPS * SUBGROUP_OUTPUTS;
const uint TILE_ROWS = ROW_SUBGROUPS * SUBGROUP_ROWS;

// a matrix of sums passes through, rows of MATRIX_M f32
const uint STRIP_PITCH = MATRIX_M / 4 + 1;
const uint INPUT_SIZE = (TILE_OUTPUTS + TILE_ROWS) * PITCH;
const uint STRIP_SIZE = SUBGROUPS * MATRIX_N * STRIP_PITCH;

shared uvec4 tiles[INPUT_SIZE > STRIP_SIZE ? INPUT_SIZE : STRIP_SIZE]; // weights, then the input

SUMS sums[TILES * ROW_TILES]; // [output][row]

uint feature_part() { return FEATURE_SUBGROUPS > 1 ? subgroup_index() / TILE_SUBGROUPS : 0; }
uint place_in_tile() { return FEATURE_SUBGROUPS > 1 ? subgroup_index() % TILE_SUBGROUPS : subgroup_index(); }
uint output_of_subgroup() { return place_in_tile() / ROW_SUBGROUPS * SUBGROUP_OUTPUTS; }
uint row_of_subgroup() { return place_in_tile() % ROW_SUBGROUPS * SUBGROUP_ROWS; }

// Of features past the last, something that exists.
const bool WHOLE_STEPS = (ALIGNED & ALIGNED_STEPS) != 0u;
uint feature_within(uint feature) { return WHOLE_STEPS ? feature : min(feature, push.in_features - FEATURES); }

uvec4 load_input_elements(uint row, uint feature) {
    if ((ALIGNED & ALIGNED_INPUT) != 0) return input_load8_halves(row + feature_within(feature));
    return pack_vector(load_input_features(row, feature));
}

// What this invocation loads of a tile of so many lines: every WORKGROUP_SIZE-th of its loads.
const uint LOADS = MATRIX_STEP / FEATURES; // of a line of the input
uint load_of(uint i) { return gl_LocalInvocationID.x + i * WORKGROUP_SIZE; }
bool is_of_tile(uint i, const uint loads) { return (i + 1) * WORKGROUP_SIZE <= loads || load_of(i) < loads; }

#ifdef TRANSPOSED_FACTORS
#include "operators/linear_pairs.glsl"
#else
#ifdef QUANTISED_WEIGHT
// A load is that of sixteen features, which wait for their decoding.
#define WEIGHT_LOAD StagedFeatures
const uint EIGHTS = 2; // of features
#define TO_SECOND (elements_to_second(WEIGHT_FORMAT) / FEATURES) // eights
WEIGHT_LOAD load_weight_elements(uint row, uint feature) {
    uint of_first = feature % (EIGHTS * TO_SECOND * FEATURES); // the same of the row's first features, which exist
    return stage_features(row + (WHOLE_STEPS ? feature : mix(of_first, feature, feature < push.in_features)));
}
#else
#define WEIGHT_LOAD uvec4
const uint EIGHTS = 1;
#define TO_SECOND 1
WEIGHT_LOAD load_weight_elements(uint row, uint feature) {
    if ((ALIGNED & ALIGNED_WEIGHT) != 0) return weight_load8_halves(row + feature_within(feature));
    return pack_vector(load_weight_features(row, feature));
}
#endif

const uint LINE_LOADS_OF_WEIGHT = LOADS / EIGHTS;
const uint WEIGHT_LOADS = (TILE_OUTPUTS * LINE_LOADS_OF_WEIGHT + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
const uint INPUT_LOADS = (TILE_ROWS * LOADS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;

// The first of a load's eights of a line of the weight.
uint eighth_of_weight(uint i) {
    uint load = load_of(i) % LINE_LOADS_OF_WEIGHT;
    return load / TO_SECOND * EIGHTS * TO_SECOND + load % TO_SECOND;
}

// Elements of the lines' first features. Lines behind the last, of the tile or of all, repeat it, and are not stored.
uint weight_rows[WEIGHT_LOADS];
uint input_rows[INPUT_LOADS];

void find_lines(uint first_output, uint first_row) {
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) weight_rows[i] = weight_element(
        min(first_output + min(load_of(i) / LINE_LOADS_OF_WEIGHT, TILE_OUTPUTS - 1), push.out_features - 1), 0);
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) input_rows[i] =
        input_element(min(first_row + min(load_of(i) / LOADS, TILE_ROWS - 1), push.rows - 1), 0);
}

WEIGHT_LOAD loaded_weights[WEIGHT_LOADS];
uvec4 loaded_inputs[INPUT_LOADS];

void load_step(uint first_feature) {
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) loaded_weights[i] =
        load_weight_elements(weight_rows[i], first_feature + eighth_of_weight(i) * FEATURES);
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) loaded_inputs[i] =
        load_input_elements(input_rows[i], first_feature + load_of(i) % LOADS * FEATURES);
}

// Features past the last are zeros.
void put_eight(uint line, uint eighth, uint first_feature, uvec4 elements) {
    bool exists = WHOLE_STEPS || first_feature + eighth * FEATURES < push.in_features;
    tiles[line * PITCH + eighth] = exists ? elements : uvec4(0);
}

void put_weight(uint i, uint first_feature) {
    uint line = load_of(i) / LINE_LOADS_OF_WEIGHT, eighth = eighth_of_weight(i);
#ifdef QUANTISED_WEIGHT
    mat2x4 first, second;
    decode_features(loaded_weights[i], first_feature + eighth * FEATURES, first, second);
    put_eight(line, eighth, first_feature, round_vector(first));
    put_eight(line, eighth + TO_SECOND, first_feature, round_vector(second));
#else
    put_eight(line, eighth, first_feature, loaded_weights[i]);
#endif
}

void fill_tiles(uint first_feature) {
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) if (is_of_tile(i, TILE_OUTPUTS * LINE_LOADS_OF_WEIGHT))
        put_weight(i, first_feature);
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) if (is_of_tile(i, TILE_ROWS * LOADS))
        put_eight(TILE_OUTPUTS + load_of(i) / LOADS, load_of(i) % LOADS, first_feature, loaded_inputs[i]);
}
#endif

// This subgroup's part of the features.
void multiply_tiles() {
    const uint steps = MATRIX_STEP / MATRIX_K / FEATURE_SUBGROUPS;
    uint first = feature_part() * steps;
    [[unroll]] for (uint step = 0; step < steps; ++step) {
        uint eighth = (first + step) * MATRIX_K / 8;
        MATRIX_A weights[TILES];
        [[unroll]] for (uint t = 0; t < TILES; ++t) coopMatLoad(
            weights[t], tiles, (output_of_subgroup() + t * MATRIX_M) * PITCH + eighth, PITCH, ROWS_IN_MEMORY);
        [[unroll]] for (uint r = 0; r < ROW_TILES; ++r) {
            MATRIX_B inputs;
            coopMatLoad(inputs, tiles, (TILE_OUTPUTS + row_of_subgroup() + r * MATRIX_N) * PITCH + eighth, PITCH,
                        COLUMNS_IN_MEMORY);
            [[unroll]] for (uint t = 0; t < TILES; ++t) sums[t * ROW_TILES + r] =
                coopMatMulAdd(weights[t], inputs, sums[t * ROW_TILES + r]);
        }
    }
}

// Of those subgroups that share a strip's reading, the one after the other's parts of the features.
void wait_for_strips() {
    if (FEATURE_SUBGROUPS > 1)
        barrier();
    else
        subgroupBarrier();
}

// Four neighbouring sums of a row, of all features, in an order that is always the same.
vec4 sum_of_features(uint block) {
    vec4 sum = uintBitsToFloat(tiles[block]);
    [[unroll]] for (uint i = 1; i < FEATURE_SUBGROUPS; ++i) sum +=
        uintBitsToFloat(tiles[block + i * TILE_SUBGROUPS * MATRIX_N * STRIP_PITCH]);
    return sum;
}

// In loops: unrolled, what becomes of a sum would stand there for each of an invocation's.
void store_tiles(uint first_output, uint first_row) {
    const uint pairs = MATRIX_M / SUMS_OF_PAIR;
    uint own_strip = subgroup_index() * MATRIX_N * STRIP_PITCH, strip = place_in_tile() * MATRIX_N * STRIP_PITCH;
    [[dont_unroll]] for (uint i = 0; i < TILES * ROW_TILES; ++i) {
        [[unroll]] for (uint t = 0; t < TILES * ROW_TILES; ++t) // sums have registers, which no index finds
            if (t == i) coopMatStore(sums[t], tiles, own_strip, STRIP_PITCH, COLUMNS_IN_MEMORY);
        wait_for_strips();
        uint o = first_output + output_of_subgroup() + i / ROW_TILES * MATRIX_M;
        uint row = first_row + row_of_subgroup() + i % ROW_TILES * MATRIX_N;
        uint lane = feature_part() * SUBGROUP_SIZE + subgroup_lane();
        [[dont_unroll]] for (uint p = lane; p < MATRIX_N * pairs; p += FEATURE_SUBGROUPS * SUBGROUP_SIZE) {
            uint first = p % pairs * SUMS_OF_PAIR; // of the matrix's outputs
            vec4 block = sum_of_features(strip + p / pairs * STRIP_PITCH + first / 4);
            store_pair(row + p / pairs, o + first, first % 4 == 0 ? block : block.zwxy);
        }
        wait_for_strips(); // the strips' last readers are done
    }
}

void main() {
    uint first_output = workgroup().x * TILE_OUTPUTS;
    uint first_row = workgroup().y * TILE_ROWS;
    [[unroll]] for (uint i = 0; i < TILES * ROW_TILES; ++i) sums[i] = ZEROS;
    find_lines(first_output, first_row);
    for (uint next = 0;; next += MATRIX_STEP) {
        if (LOADS_AHEAD != 0 && next < push.in_features) load_step(next);
        if (next > 0) multiply_tiles(); // what is there
        if (next >= push.in_features) break;
        if (LOADS_AHEAD == 0) load_step(next);
        barrier(); // the tiles' last readers are done
        fill_tiles(next);
        barrier();
    }
    barrier(); // the tiles' last readers are done
    store_tiles(first_output, first_row);
}
