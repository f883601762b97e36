// output = activation(input W^T + bias) + residual, f32 accumulation.
//
// input [B,L,in], W [out,in], bias [out], residual [B,L,out]
//   -> output element o of row (b, l) at strides (b, l, o / head_dim, o % head_dim)
// grid: (output tiles, row tiles, groups); a workgroup of 8 x 8 computes LINEAR_TILE^2 values, 4 x 4 an invocation
// shared memory: 2 * LINEAR_TILE * (STEP + 1) f32 = 4352 bytes
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface.h"

LINEAR_CONSTANTS(VKATTN_CONSTANT)

layout(push_constant, std430) uniform PushBlock { LinearPush push; };

#include "lib/bases.glsl"

layout(set = 0, binding = BINDING_LINEAR_INPUT, std430) readonly buffer InputBuffer { uint input_words[]; };
layout(set = 0, binding = BINDING_LINEAR_WEIGHT, std430) readonly buffer WeightBuffer { uint weight_words[]; };
layout(set = 0, binding = BINDING_LINEAR_BIAS, std430) readonly buffer BiasBuffer { uint bias_words[]; };
layout(set = 0, binding = BINDING_LINEAR_RESIDUAL, std430) readonly buffer ResidualBuffer { uint residual_words[]; };
layout(set = 0, binding = BINDING_LINEAR_OUTPUT, std430) buffer OutputBuffer { uint output_words[]; };

#define WORDS input_words
#define BINDING BINDING_LINEAR_INPUT
#define LOAD load_input
#define LOAD4 load_input4
#include "lib/load.glsl"

#define WORDS weight_words
#define BINDING BINDING_LINEAR_WEIGHT
#define LOAD load_weight
#define LOAD4 load_weight4
#include "lib/load.glsl"

#define WORDS bias_words
#define BINDING BINDING_LINEAR_BIAS
#define LOAD load_bias
#define LOAD4 load_bias4
#include "lib/load.glsl"

#define WORDS residual_words
#define BINDING BINDING_LINEAR_RESIDUAL
#define LOAD load_residual
#define LOAD4 load_residual4
#include "lib/load.glsl"

#include "lib/activation.glsl"
#include "lib/round.glsl"

#define WORDS output_words
#define BINDING BINDING_LINEAR_OUTPUT
#define STORE store_output
#define STORE2 store_output2
#include "lib/store.glsl"

const uint STEP = 16; // input features of one pass through shared memory

// one column more than needed, so that neighbouring rows fall into different banks
shared float input_tile[LINEAR_TILE * (STEP + 1)];
shared float weight_tile[LINEAR_TILE * (STEP + 1)];

uint input_element(uint row, uint feature) {
    return row / push.positions * push.input_strides[0] + row % push.positions * push.input_strides[1] +
           gl_WorkGroupID.z * push.input_strides[2] + feature;
}

uint weight_element(uint o, uint feature) {
    return o * push.weight_strides[0] + feature * push.weight_strides[1] + gl_WorkGroupID.z * push.weight_strides[2];
}

uint output_element(uint row, uint o) {
    return row / push.positions * push.output_strides[0] + row % push.positions * push.output_strides[1] +
           o / push.head_dim * push.output_strides[2] + o % push.head_dim * push.output_strides[3] +
           gl_WorkGroupID.z * push.output_strides[4];
}

uint residual_element(uint row, uint o) {
    return row / push.positions * push.residual_strides[0] + row % push.positions * push.residual_strides[1] + o;
}

void fill_tiles(uint first_row, uint first_output, uint first_feature) {
    for (uint i = gl_LocalInvocationID.x; i < LINEAR_TILE * STEP; i += LINEAR_WORKGROUP_SIZE) {
        uint line = i / STEP;
        uint feature = first_feature + i % STEP;
        bool inside = feature < push.in_features;
        uint row = first_row + line;
        uint o = first_output + line;
        input_tile[line * (STEP + 1) + i % STEP] =
            inside && row < push.rows ? load_input(INPUT_FORMAT, input_element(row, feature)) : 0.0;
        weight_tile[line * (STEP + 1) + i % STEP] =
            inside && o < push.out_features ? load_weight(WEIGHT_FORMAT, weight_element(o, feature)) : 0.0;
    }
}

// What becomes of four neighbouring sums: bias, activation, residual.
vec4 finish(vec4 sums, uint row, uint o) {
    for (uint i = 0; i < 4; ++i) {
        if (o + i >= push.out_features) continue;
        if (BIAS_FORMAT != FORMAT_NONE) sums[i] += load_bias(BIAS_FORMAT, o + i + gl_WorkGroupID.z * push.bias_stride);
        sums[i] = activate(ACTIVATION, sums[i]);
        if (RESIDUAL_FORMAT != FORMAT_NONE) sums[i] += load_residual(RESIDUAL_FORMAT, residual_element(row, o + i));
    }
    return sums;
}

void store_four(uint row, uint o, vec4 values) {
    for (uint i = 0; i < 4; i += 2) {
        if (OUTPUT_PAIRS != 0 && o + i + 1 < push.out_features) {
            store_output2(OUTPUT_FORMAT, true, output_element(row, o + i), 1, vec2(values[i], values[i + 1]));
            continue;
        }
        if (o + i < push.out_features) store_output(OUTPUT_FORMAT, output_element(row, o + i), values[i]);
        if (o + i + 1 < push.out_features) store_output(OUTPUT_FORMAT, output_element(row, o + i + 1), values[i + 1]);
    }
}

void main() {
    uint first_output = gl_WorkGroupID.x * LINEAR_TILE;
    uint first_row = gl_WorkGroupID.y * LINEAR_TILE;
    uint tile_output = gl_LocalInvocationID.x % 8 * 4;
    uint tile_row = gl_LocalInvocationID.x / 8 * 4;
    mat4 sums = mat4(0.0); // [row][output]

    for (uint first_feature = 0; first_feature < push.in_features; first_feature += STEP) {
        fill_tiles(first_row, first_output, first_feature);
        barrier(); // the tiles are complete
        for (uint k = 0; k < STEP; ++k) {
            vec4 w;
            for (uint i = 0; i < 4; ++i) w[i] = weight_tile[(tile_output + i) * (STEP + 1) + k];
            for (uint i = 0; i < 4; ++i) sums[i] += input_tile[(tile_row + i) * (STEP + 1) + k] * w;
        }
        barrier(); // and read by all, before the next pass overwrites them
    }

    for (uint i = 0; i < 4; ++i) {
        uint row = first_row + tile_row + i;
        uint o = first_output + tile_output;
        if (row < push.rows) store_four(row, o, finish(sums[i], row, o));
    }
}
