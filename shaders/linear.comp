// output = activation(input W^T + bias) * multiplier + residual, f32 accumulation.
//
// input [B,L,in], W [out,in], bias [out], multiplier and residual [B,L,out]
//   -> output element o of row (b, l) at strides (b, l, o / head_dim, o % head_dim)
// grid: (output tiles, row tiles, groups); a workgroup of 8 x 8 computes LINEAR_TILE^2 values, 4 x 4 an invocation
// shared memory: 2 * LINEAR_TILE * (STEP + 1) f32 = 4352 bytes
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "lib/linear_bindings.glsl"

const uint STEP = 16; // input features of one pass through shared memory

// one column more than needed, so that neighbouring rows fall into different banks
shared float input_tile[LINEAR_TILE * (STEP + 1)];
shared float weight_tile[LINEAR_TILE * (STEP + 1)];

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

vec4 finish_four(vec4 sums, uint row, uint o) {
    for (uint i = 0; i < 4; ++i)
        if (o + i < push.out_features) sums[i] = finish(sums[i], row, o + i);
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
        if (row < push.rows) store_four(row, o, finish_four(sums[i], row, o));
    }
}
