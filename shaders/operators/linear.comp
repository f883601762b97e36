// output = activation(input W^T + bias) * multiplier + residual, f32 accumulation.
//
// input [B,L,in], W [out,in], bias [out], multiplier and residual [B,L,out]
//   -> output element o of row (b, l) at strides (b, l, o / head_dim, o % head_dim)
// gated: output = activation(input W[0]^T + bias[0]) * (input W[1]^T + bias[1]) + residual, see LinearPush
// grid: (output tiles, row tiles, groups); a workgroup of 8 x 8 computes LINEAR_TILE^2 values, 4 x 4 an invocation
// shared memory: 2 * LINEAR_TILE * PITCH vec4 = 9216 bytes
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

#include "operators/linear_features.glsl"
#include "operators/linear_tensors.glsl"
#ifdef TRANSPOSED_FACTORS
#include "operators/linear_transposed.glsl"
#endif

const uint STEP = 32;                  // input features of one pass through shared memory
const uint PITCH = STEP / 4 + 1;       // of four features; neighbouring lines lie in other banks
const uint SIDE = 8;                   // of the workgroup
const uint LINES = LINEAR_TILE / SIDE; // rows, or outputs, of an invocation
const uint LOADS = STEP / FEATURES;    // of a line
const uint LOADED_LINES = LINEAR_TILE * LOADS / LINEAR_WORKGROUP_SIZE; // of an invocation, a load of each

shared vec4 input_tile[LINEAR_TILE * PITCH];
shared vec4 weight_tile[LINEAR_TILE * PITCH];

// An invocation's LINES neighbouring lines lie SIDE apart, those of neighbouring invocations beside each other.
uint place_of_line(uint line) { return (line % LINES * SIDE + line / LINES) * PITCH; }

uint loaded_line(uint i) { return (gl_LocalInvocationID.x + i * LINEAR_WORKGROUP_SIZE) / LOADS; }

// Elements of the first features of what this invocation loads; lines behind the last repeat it, and are not stored.
uint input_rows[LOADED_LINES];
uint weight_rows[LOADED_LINES];

void find_lines(uint first_row, uint first_output) {
    [[unroll]] for (uint i = 0; i < LOADED_LINES; ++i) {
        input_rows[i] = input_element(min(first_row + loaded_line(i), push.rows - 1), 0);
        weight_rows[i] = weight_element(min(first_output + loaded_line(i), push.out_features - 1), 0);
    }
}

#ifdef TRANSPOSED_FACTORS
void fill_input(uint first_feature) {
    uint load = gl_LocalInvocationID.x % LOADS * FEATURES;
    [[unroll]] for (uint i = 0; i < LOADED_LINES; ++i) {
        uint place = place_of_line(loaded_line(i)) + load / 4;
        mat2x4 x = load_input_features(input_rows[i], first_feature + load);
        [[unroll]] for (uint block = 0; block < 2; ++block) input_tile[place + block] = x[block];
    }
}

const uint LINE_EIGHTS = LINEAR_TILE / FEATURES;

// Of the i-th of an invocation's loads: the feature of the tile, and the first of eight lines.
uint feature_of_load(uint i) { return (gl_LocalInvocationID.x + i * LINEAR_WORKGROUP_SIZE) / LINE_EIGHTS; }
uint line_of_load(uint i) { return gl_LocalInvocationID.x % LINE_EIGHTS * FEATURES; }

void fill_transposed_input(uint first_feature) {
    [[unroll]] for (uint i = 0; i < LOADED_LINES; ++i) {
        uint feature = feature_of_load(i), line = line_of_load(i);
        mat2x4 x = load_input_rows(first_feature + feature, workgroup().y * LINEAR_TILE + line);
        if (first_feature + feature >= push.in_features) x = mat2x4(0);
        [[unroll]] for (uint n = 0; n < FEATURES; ++n) input_tile[place_of_line(line + n) + feature / 4][feature % 4] =
            x[n / 4][n % 4];
    }
}

void fill_tiles(uint first_feature) {
    if ((TRANSPOSED & TRANSPOSED_INPUT) != 0)
        fill_transposed_input(first_feature);
    else
        fill_input(first_feature);
    [[unroll]] for (uint i = 0; i < LOADED_LINES; ++i) {
        uint feature = feature_of_load(i), line = line_of_load(i);
        mat2x4 w = load_weight_outputs(first_feature + feature, workgroup().x * LINEAR_TILE + line);
        if (first_feature + feature >= push.in_features) w = mat2x4(0);
        [[unroll]] for (uint n = 0; n < FEATURES; ++n) weight_tile[place_of_line(line + n) + feature / 4][feature % 4] =
            w[n / 4][n % 4];
    }
}
#else
void fill_tiles(uint first_feature) {
    uint load = gl_LocalInvocationID.x % LOADS * FEATURES;
    [[unroll]] for (uint i = 0; i < LOADED_LINES; ++i) {
        uint place = place_of_line(loaded_line(i)) + load / 4;
        mat2x4 x = load_input_features(input_rows[i], first_feature + load);
        mat2x4 w = load_weight_features(weight_rows[i], first_feature + load);
        [[unroll]] for (uint block = 0; block < 2; ++block) {
            input_tile[place + block] = x[block];
            weight_tile[place + block] = w[block];
        }
    }
}
#endif

vec4 sums[LINES]; // [row][output]

void multiply_tiles(uint tile_row, uint tile_output) {
    [[dont_unroll]] for (uint block = 0; block < STEP / 4; ++block) {
        vec4 w[LINES];
        [[unroll]] for (uint o = 0; o < LINES; ++o) w[o] = weight_tile[place_of_line(tile_output + o) + block];
        [[unroll]] for (uint r = 0; r < LINES; ++r) {
            vec4 x = input_tile[place_of_line(tile_row + r) + block];
            sums[r] += vec4(dot(x, w[0]), dot(x, w[1]), dot(x, w[2]), dot(x, w[3]));
        }
    }
}

// Through shared memory, so that neighbours store neighbouring outputs, and what becomes of a sum stands there once.
void store_tile(uint tile_row, uint tile_output, uint first_row, uint first_output) {
    const uint pairs = LINEAR_TILE / SUMS_OF_PAIR; // of a row
    barrier();                                     // the tiles' last readers are done
    [[unroll]] for (uint r = 0; r < LINES; ++r) input_tile[(tile_row + r) * PITCH + tile_output / 4] = sums[r];
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < LINEAR_TILE * pairs; i += LINEAR_WORKGROUP_SIZE) {
        uint row = i / pairs, o = i % pairs * SUMS_OF_PAIR;
        vec4 four = input_tile[row * PITCH + o / 4];
        store_pair(first_row + row, first_output + o, o % 4 == 0 ? four : four.zwxy);
    }
}

void main() {
    uint first_output = workgroup().x * LINEAR_TILE;
    uint first_row = workgroup().y * LINEAR_TILE;
    uint tile_output = gl_LocalInvocationID.x % SIDE * LINES;
    uint tile_row = gl_LocalInvocationID.x / SIDE * LINES;
    find_lines(first_row, first_output);
    [[unroll]] for (uint r = 0; r < LINES; ++r) sums[r] = vec4(0);

    for (uint first_feature = 0; first_feature < push.in_features; first_feature += STEP) {
        barrier(); // the tiles' last readers are done
        fill_tiles(first_feature);
        barrier();
        multiply_tiles(tile_row, tile_output);
    }

    store_tile(tile_row, tile_output, first_row, first_output);
}
