// output = activation(input W^T + bias) * multiplier + residual by instructions that add two products of f16 to a sum of f32
// (common/dot_of_halves.glsl): input and weights of f16, or quantised weights that become f16.
//
// input [B,L,in], W [out,in], bias [out], multiplier and residual [B,L,out]
//   -> output element o of row (b, l) at strides (b, l, o / head_dim, o % head_dim)
// grid: (output tiles, row tiles, groups). A workgroup of 8 x 8 computes LINEAR_DOTS_TILE^2 values, 8 x 8 an invocation; the next
// features are on their way to registers while these are multiplied.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(local_size_x = 64) in;

#include "common/dot_of_halves.glsl"
#include "common/matrix_element.glsl"
#include "operators/linear_features.glsl"
#include "operators/linear_tensors.glsl"

const uint STEP = LINEAR_DOTS_STEP;         // input features of one pass through shared memory
const uint SIDE = 8;                        // of the workgroup
const uint LINES = LINEAR_DOTS_TILE / SIDE; // rows, or outputs, of an invocation: SIDE apart
const uint VECTORS = STEP / FEATURES;       // of a line
const uint PITCH = VECTORS + 1;             // neighbouring lines lie in other banks
const uint LOADS = LINEAR_DOTS_TILE * VECTORS / LINEAR_WORKGROUP_SIZE; // of an invocation, of either tile

const bool WHOLE_STEPS = (ALIGNED & ALIGNED_STEPS) != 0u;

// Vectors in halves, all first ones before all second ones: compilers that read 8 bytes at a time would find each half of
// neighbouring vectors in every other bank.
const uint TILE_SIZE = LINEAR_DOTS_TILE * PITCH;
shared uvec2 input_tile[2 * TILE_SIZE];
shared uvec2 weight_tile[2 * TILE_SIZE];
#define GET(tile, at) uvec4(tile[at], tile[(at) + TILE_SIZE])
#define PUT(tile, at, vector)                                                                                          \
    tile[at] = (vector).xy;                                                                                            \
    tile[(at) + TILE_SIZE] = (vector).zw;

uint loaded_line(uint i) { return (gl_LocalInvocationID.x + i * LINEAR_WORKGROUP_SIZE) / VECTORS; }

// Elements of the first features of what this invocation loads; lines behind the last repeat it, and are not stored.
uint input_rows[LOADS];
uint weight_rows[LOADS];

void find_lines(uint first_row, uint first_output) {
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        input_rows[i] = input_element(min(first_row + loaded_line(i), push.rows - 1), 0);
        weight_rows[i] = weight_element(min(first_output + loaded_line(i), push.out_features - 1), 0);
    }
}

uvec4 load_input_halves(uint row, uint feature) {
    if (WHOLE_STEPS || feature < push.in_features) return input_load8_halves(row + feature);
    return uvec4(0);
}

uvec4 load_weight_halves(uint row, uint feature) {
#ifdef QUANTISED_WEIGHT
    return pack_vector(load_weight_features(row, feature));
#else
    if (WHOLE_STEPS || feature < push.in_features) return weight_load8_halves(row + feature);
    return uvec4(0);
#endif
}

uvec4 loaded_inputs[LOADS];
uvec4 loaded_weights[LOADS];

void load_step(uint first_feature) {
    uint feature = first_feature + gl_LocalInvocationID.x % VECTORS * FEATURES;
    [[unroll]] for (uint i = 0; i < LOADS; ++i) loaded_inputs[i] = load_input_halves(input_rows[i], feature);
    [[unroll]] for (uint i = 0; i < LOADS; ++i) loaded_weights[i] = load_weight_halves(weight_rows[i], feature);
}

void fill_tiles() {
    uint vector = gl_LocalInvocationID.x % VECTORS;
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        PUT(input_tile, loaded_line(i) * PITCH + vector, loaded_inputs[i])
        PUT(weight_tile, loaded_line(i) * PITCH + vector, loaded_weights[i])
    }
}

uint own_row(uint r) { return gl_LocalInvocationID.x / SIDE + r * SIDE; }
uint own_output(uint o) { return gl_LocalInvocationID.x % SIDE + o * SIDE; }

float sums[LINES * LINES]; // [row][output]

void multiply_tiles() {
    [[dont_unroll]] for (uint vector = 0; vector < VECTORS; ++vector) {
        uvec4 weights[LINES];
        [[unroll]] for (uint o = 0; o < LINES; ++o) weights[o] = GET(weight_tile, own_output(o) * PITCH + vector);
        [[unroll]] for (uint r = 0; r < LINES; ++r) {
            uvec4 inputs = GET(input_tile, own_row(r) * PITCH + vector);
            [[unroll]] for (uint i = 0; i < 4; ++i) [[unroll]] for (uint o = 0; o < LINES; ++o) sums[r * LINES + o] =
                dot_of_halves(inputs[i], weights[o][i], sums[r * LINES + o]);
        }
    }
}

// Through shared memory, so that neighbours store neighbouring outputs, and what becomes of a sum stands there once: SIDE rows at
// a time.
void store_tile(uint first_row, uint first_output) {
    const uint pairs = LINEAR_DOTS_TILE / SUMS_OF_PAIR, words = SUMS_OF_PAIR / 2; // of a row, of a pair
    [[dont_unroll]] for (uint r = 0; r < LINES; ++r) {
        barrier(); // the tiles' last readers are done
        [[unroll]] for (uint o = 0; o < LINES; ++o) {
            uint at = gl_LocalInvocationID.x / SIDE * LINEAR_DOTS_TILE + own_output(o);
            input_tile[at / 2][at % 2] = floatBitsToUint(sums[o]);
        }
        barrier();
        [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < SIDE * pairs; i += LINEAR_WORKGROUP_SIZE) {
            uvec4 found = uvec4(input_tile[i * words], input_tile[i * words + words - 1]);
            store_pair(first_row + r * SIDE + i / pairs, first_output + i % pairs * SUMS_OF_PAIR,
                       uintBitsToFloat(found));
        }
        [[unroll]] for (uint i = LINES; i < LINES * LINES; ++i) sums[i - LINES] = sums[i]; // no index finds registers
    }
}

void main() {
    uint first_output = workgroup().x * LINEAR_DOTS_TILE, first_row = workgroup().y * LINEAR_DOTS_TILE;
    [[unroll]] for (uint i = 0; i < LINES * LINES; ++i) sums[i] = 0.0;
    find_lines(first_row, first_output);
    for (uint next = 0;; next += STEP) {
        if (next < push.in_features) load_step(next);
        if (next > 0) multiply_tiles(); // what is there
        if (next >= push.in_features) break;
        barrier(); // the tiles' last readers are done
        fill_tiles();
        barrier();
    }
    store_tile(first_row, first_output);
}
