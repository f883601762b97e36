// RMSNorm (Zhang and Sennrich, 2019) and LayerNorm (Ba et al., 2016) of each token.
//
// output = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * weight * silu(gate) + bias + residual; RMSNorm takes the mean as 0
// input [B,L,N], weight [N], bias [N], gate and residual [B,L,N] -> output [B,L,N], which may be the input, the gate or the residual
// grid: (L, B), one workgroup a token; an invocation owns the pairs 2 * (local index + n * WORKGROUP_SIZE), so
// that it alone reads and writes them and two 16-bit values may share a word; with IN_FOURS as many fours
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "interface/norm.h"

NORM_CONSTANTS(VKATTN_CONSTANT)

#define PUSH NormPush
#include "common/push.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_NORM_INPUT
#include "common/tensor.glsl"

#define TENSOR weight
#define TENSOR_BINDING BINDING_NORM_WEIGHT
#include "common/tensor.glsl"

#define TENSOR bias
#define TENSOR_BINDING BINDING_NORM_BIAS
#include "common/tensor.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_NORM_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR residual
#define TENSOR_BINDING BINDING_NORM_RESIDUAL
#include "common/tensor.glsl"

#define TENSOR gate
#define TENSOR_BINDING BINDING_NORM_GATE
#include "common/tensor.glsl"

#include "operators/activation.glsl"

#define REDUCE_SIZE WORKGROUP_SIZE
#include "common/reduce.glsl"

uint input_start() { return workgroup().y * push.input_strides[0] + workgroup().x * push.input_strides[1]; }

uint residual_start() { return workgroup().y * push.residual_strides[0] + workgroup().x * push.residual_strides[1]; }

uint output_start() { return workgroup().y * push.output_strides[0] + workgroup().x * push.output_strides[1]; }

uint gate_start() { return workgroup().y * push.gate_strides[0] + workgroup().x * push.gate_strides[1]; }

// Fours of an invocation whose loads are under way together: `first` and those WORKGROUP_SIZE fours apart.
const uint FOURS_AT_ONCE = 4;
uint feature_of_four(uint first, uint k) { return first + k * 4 * WORKGROUP_SIZE; }

// Past the last, that once more: no load is behind a branch.
void load_fours(uint first, out vec4 fours[FOURS_AT_ONCE]) {
    [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) {
        uint feature = min(feature_of_four(first, k), push.features - 4);
        fours[k] = input_load4(INPUT_FORMAT, true, input_start() + feature, 1);
    }
}

float sum_of_own_fours(float mean, bool squared) {
    vec4 sum = vec4(0.0);
    for (uint first = 4 * gl_LocalInvocationID.x; first < push.features;
         first = feature_of_four(first, FOURS_AT_ONCE)) {
        vec4 fours[FOURS_AT_ONCE];
        load_fours(first, fours);
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) {
            vec4 x = fours[k] - mean;
            sum += feature_of_four(first, k) < push.features ? squared ? x * x : x : vec4(0.0);
        }
    }
    return sum.x + sum.y + sum.z + sum.w;
}

float sum_of_own(float mean, bool squared) {
    if (IN_FOURS != 0u) return sum_of_own_fours(mean, squared);
    float sum = 0.0;
    for (uint i = 2 * gl_LocalInvocationID.x; i < push.features; i += 2 * WORKGROUP_SIZE)
        for (uint feature = i; feature < min(i + 2, push.features); ++feature) {
            float x = input_load(INPUT_FORMAT, input_start() + feature) - mean;
            sum += squared ? x * x : x;
        }
    return sum;
}

float normalised(uint feature, float mean, float scale) {
    float x = (input_load(INPUT_FORMAT, input_start() + feature) - mean) * scale * weight_load(WEIGHT_FORMAT, feature);
    if (GATE_FORMAT != FORMAT_NONE) x *= activate(ACTIVATION_SILU, gate_load(GATE_FORMAT, gate_start() + feature));
    if (BIAS_FORMAT != FORMAT_NONE) x += bias_load(BIAS_FORMAT, feature);
    if (RESIDUAL_FORMAT == FORMAT_NONE) return x;
    return x + residual_load(RESIDUAL_FORMAT, residual_start() + feature);
}

void store_four(uint i, vec4 x) {
    if (GATE_FORMAT != FORMAT_NONE) {
        vec4 gates = gate_load4(GATE_FORMAT, true, gate_start() + i, 1);
        for (uint j = 0; j < 4; ++j) x[j] *= activate(ACTIVATION_SILU, gates[j]);
    }
    if (BIAS_FORMAT != FORMAT_NONE) x += bias_load4(BIAS_FORMAT, true, i, 1);
    if (RESIDUAL_FORMAT != FORMAT_NONE) x += residual_load4(RESIDUAL_FORMAT, true, residual_start() + i, 1);
    output_store2(OUTPUT_FORMAT, true, output_start() + i, 1, x.xy);
    output_store2(OUTPUT_FORMAT, true, output_start() + i + 2, 1, x.zw);
}

void store_fours(float mean, float scale) {
    for (uint first = 4 * gl_LocalInvocationID.x; first < push.features;
         first = feature_of_four(first, FOURS_AT_ONCE)) {
        vec4 fours[FOURS_AT_ONCE], weights[FOURS_AT_ONCE];
        load_fours(first, fours);
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) weights[k] =
            weight_load4(WEIGHT_FORMAT, true, min(feature_of_four(first, k), push.features - 4), 1);
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) {
            uint feature = feature_of_four(first, k);
            if (feature < push.features) store_four(feature, (fours[k] - mean) * scale * weights[k]);
        }
    }
}

void store_pairs(float mean, float scale) {
    uint start = output_start();
    for (uint i = 2 * gl_LocalInvocationID.x; i < push.features; i += 2 * WORKGROUP_SIZE) {
        float first = normalised(i, mean, scale);
        if (i + 1 < push.features)
            output_store2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0u, start + i, 1, vec2(first, normalised(i + 1, mean, scale)));
        else
            output_store(OUTPUT_FORMAT, start + i, first);
    }
}

void main() {
    float features = float(push.features);
    float mean = 0.0;
    if (SUBTRACTS_MEAN != 0u) mean = reduce_sum(sum_of_own(0.0, false)) / features;
    float scale = inversesqrt(reduce_sum(sum_of_own(mean, true)) / features + push.epsilon);

    if (IN_FOURS != 0u)
        store_fours(mean, scale);
    else
        store_pairs(mean, scale);
}
