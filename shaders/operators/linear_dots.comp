// output = activation(input W^T + bias) * multiplier + residual by instructions that add two products of f16 to a sum of f32
// (common/dot_of_halves.glsl): input and weights of f16, or quantised weights that become f16.
//
// input [B,L,in], W [out,in], bias [out], multiplier and residual [B,L,out]
//   -> output element o of row (b, l) at strides (b, l, o / head_dim, o % head_dim)
// grid: (output tiles, row tiles, groups). A workgroup computes ROW_TILES * LINEAR_SIDE x TILES * LINEAR_SIDE
// values, by one or several parts of the features; the next
// features are on their way to registers while these are multiplied.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(local_size_x_id = 7) in;

#include "common/dot_of_halves.glsl"
#include "operators/linear_features.glsl"
#include "operators/linear_tensors.glsl"
#ifdef QUANTISED_WEIGHT
#include "common/rounded_halves.glsl"
#define EIGHT_FEATURES
#include "operators/linear_blocks.glsl"
#endif

const uint PARTS = WORKGROUP_SIZE / LINEAR_WORKGROUP_SIZE; // of the features, whose steps they take in turn
const uint STEP = LINEAR_DOTS_STEP;                        // input features of one pass through shared memory
const uint PITCH = STEP / FEATURES + 1;                    // neighbouring lines lie in other banks
const uint TILE_ROWS = ROW_TILES * LINEAR_SIDE, TILE_OUTPUTS = TILES * LINEAR_SIDE;

const bool WHOLE_STEPS = (ALIGNED & ALIGNED_STEPS) != 0u;

// Vectors in halves, all first ones before all second ones: compilers that read 8 bytes at a time would find each half of
// neighbouring vectors in every other bank.
const uint INPUT_SIZE = TILE_ROWS * PITCH, WEIGHT_SIZE = TILE_OUTPUTS * PITCH; // of a part's tile, in halves
shared uvec2 input_tiles[PARTS * 2 * INPUT_SIZE];
shared uvec2 weight_tiles[PARTS * 2 * WEIGHT_SIZE];
#define GET(tiles, size, at) uvec4(tiles[at], tiles[(at) + size])
#define PUT(tiles, size, at, vector)                                                                                   \
    tiles[at] = (vector).xy;                                                                                           \
    tiles[(at) + size] = (vector).zw;

#define STRIP(at) input_tiles[(at) / 2][(at) % 2]
#define AS_STRIP floatBitsToUint
#define FROM_STRIP uintBitsToFloat
#include "operators/linear_tiles.glsl"

uint input_at(uint line, uint vector) { return own_part() * 2 * INPUT_SIZE + line * PITCH + vector; }
uint weight_at(uint line, uint vector) { return own_part() * 2 * WEIGHT_SIZE + line * PITCH + vector; }

uvec4 load_input_halves(uint row, uint feature) {
    if (WHOLE_STEPS || feature < push.in_features) return input_load8_halves(row + feature);
    return uvec4(0);
}

#ifdef QUANTISED_WEIGHT
#define WEIGHT_LOAD StagedFeatures
WEIGHT_LOAD load_weight(uint row, uint feature) {
    return stage_features(row + (WHOLE_STEPS ? feature : min(feature, push.in_features - FEATURES)));
}
#else
#define WEIGHT_LOAD uvec4
WEIGHT_LOAD load_weight(uint row, uint feature) {
    if (WHOLE_STEPS || feature < push.in_features) return weight_load8_halves(row + feature);
    return uvec4(0);
}
#endif

uvec4 loaded_inputs[INPUT_LOADS];
WEIGHT_LOAD loaded_weights[WEIGHT_LOADS];

void load_step(uint first_feature) {
    uint feature = first_feature + own_feature();
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) loaded_inputs[i] = load_input_halves(input_rows[i], feature);
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) loaded_weights[i] = load_weight(weight_rows[i], feature);
}

uvec4 loaded_weight(uint i, uint feature) {
#ifdef QUANTISED_WEIGHT
    if (!WHOLE_STEPS && feature >= push.in_features) return uvec4(0);
    return round_vector(decode_eight(loaded_weights[i], weight_rows[i] + feature));
#else
    return loaded_weights[i];
#endif
}

void fill_tiles(uint first_feature) {
    uint feature = first_feature + own_feature(), vector = own_feature() / FEATURES;
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) {
        PUT(input_tiles, INPUT_SIZE, input_at(loaded_line(i), vector), loaded_inputs[i])
    }
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) {
        uvec4 weight = loaded_weight(i, feature);
        PUT(weight_tiles, WEIGHT_SIZE, weight_at(loaded_line(i), vector), weight)
    }
}

void multiply_tiles() {
    [[dont_unroll]] for (uint vector = 0; vector < LOADS; ++vector) {
        uvec4 weights[TILES];
        [[unroll]] for (uint o = 0; o < TILES; ++o) weights[o] =
            GET(weight_tiles, WEIGHT_SIZE, weight_at(own_output(o), vector));
        [[unroll]] for (uint r = 0; r < ROW_TILES; ++r) {
            uvec4 inputs = GET(input_tiles, INPUT_SIZE, input_at(own_row(r), vector));
            [[unroll]] for (uint i = 0; i < 4; ++i) [[unroll]] for (uint o = 0; o < TILES; ++o) sums[r * TILES + o] =
                dot_of_halves(inputs[i], weights[o][i], sums[r * TILES + o]);
        }
    }
}

void main() {
    uint first_output = workgroup().x * TILE_OUTPUTS, first_row = workgroup().y * TILE_ROWS;
    [[unroll]] for (uint i = 0; i < ROW_TILES * TILES; ++i) sums[i] = 0.0;
    find_lines(first_row, first_output);
    for (uint next = 0;; next += STEP * PARTS) {
        uint feature = next + own_part() * STEP;
        if (next < push.in_features) load_step(feature);
        if (next > 0) multiply_tiles(); // what is there
        if (next >= push.in_features) break;
        barrier(); // the tiles' last readers are done
        fill_tiles(feature);
        barrier();
    }
    store_tile(first_row, first_output);
}
