// The gradient of the input of RMSNorm and LayerNorm, and each token's statistics, by which token_sums finds that of the weight.
//
// With g = d_output * weight, x the input's differences from the mean (RMSNorm: the input itself) and scale = 1 / sqrt(mean(x^2) + epsilon):
// d_input = scale * (g - mean(g) - x * scale^2 * mean(g * x)) + residual; RMSNorm takes mean(g) as 0
// input, d_output and residual [B,L,N], weight [N] -> d_input [B,L,N], which may be the residual, and statistics [B*L,2] (mean, scale)
// grid: (L, B), one workgroup a token; an invocation owns the fours 4 * (local index + n * WORKGROUP_SIZE)
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "interface/norm_backward.h"

NORM_BACKWARD_CONSTANTS(VKATTN_CONSTANT)

#define PUSH NormBackwardPush
#include "common/push.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_NORM_BACKWARD_INPUT
#include "common/tensor.glsl"

#define TENSOR weight
#define TENSOR_BINDING BINDING_NORM_BACKWARD_WEIGHT
#include "common/tensor.glsl"

#define TENSOR d_output
#define TENSOR_BINDING BINDING_NORM_BACKWARD_D_OUTPUT
#include "common/tensor.glsl"

#define TENSOR residual
#define TENSOR_BINDING BINDING_NORM_BACKWARD_RESIDUAL
#include "common/tensor.glsl"

#define TENSOR d_input
#define TENSOR_BINDING BINDING_NORM_BACKWARD_D_INPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR statistics
#define TENSOR_BINDING BINDING_NORM_BACKWARD_STATISTICS
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define REDUCE_SIZE WORKGROUP_SIZE
#define REDUCE_TYPE vec3
#include "common/reduce.glsl"

uint start_of(const uint strides[2]) { return workgroup().y * strides[0] + workgroup().x * strides[1]; }

// Elements from i on of the four that exist.
uint count_from(uint i) { return min(4, push.features - i); }

// The input's differences from the mean; zeros past the last.
vec4 centred(uint i, float mean) {
    uint start = start_of(push.input_strides) + i;
    if (IN_FOURS != 0) return input_load4(INPUT_FORMAT, true, start, 1) - mean;
    vec4 x = vec4(0);
    for (uint n = 0; n < count_from(i); ++n) x[n] = input_load(INPUT_FORMAT, start + n) - mean;
    return x;
}

vec4 weighted_gradients(uint i) {
    uint start = start_of(push.d_output_strides) + i;
    if (IN_FOURS != 0) return d_output_load4(D_OUTPUT_FORMAT, true, start, 1) * weight_load4(WEIGHT_FORMAT, true, i, 1);
    vec4 g = vec4(0);
    for (uint n = 0; n < count_from(i); ++n)
        g[n] = d_output_load(D_OUTPUT_FORMAT, start + n) * weight_load(WEIGHT_FORMAT, i + n);
    return g;
}

// In place of features behind the last that one once more: they may be the next row's, whose workgroup writes them.
vec4 load_residual(uint i) {
    uint start = start_of(push.residual_strides) + i;
    if (IN_FOURS != 0) return residual_load4(RESIDUAL_FORMAT, true, start, 1);
    vec4 four;
    [[unroll]] for (uint n = 0; n < 4; ++n) four[n] = residual_load(RESIDUAL_FORMAT, start + min(n, count_from(i) - 1));
    return four;
}

void store_four(uint i, vec4 four) {
    uint start = start_of(push.d_input_strides) + i;
    for (uint n = 0; n < count_from(i); n += 2)
        if (i + n + 1 < push.features)
            d_input_store2(D_INPUT_FORMAT, D_INPUT_PAIRS != 0, start + n, 1, vec2(four[n], four[n + 1]));
        else
            d_input_store(D_INPUT_FORMAT, start + n, four[n]);
}

float mean_of_input() {
    if (SUBTRACTS_MEAN == 0) return 0.0;
    vec4 sum = vec4(0);
    for (uint i = 4 * gl_LocalInvocationID.x; i < push.features; i += 4 * WORKGROUP_SIZE) sum += centred(i, 0.0);
    return reduce_sum(vec3(dot(sum, vec4(1)), 0, 0)).x / float(push.features);
}

// Of x^2, g and g * x.
vec3 means_of_products(float mean) {
    vec4 squares = vec4(0), gradients = vec4(0), products = vec4(0);
    for (uint i = 4 * gl_LocalInvocationID.x; i < push.features; i += 4 * WORKGROUP_SIZE) {
        vec4 x = centred(i, mean);
        squares += x * x;
        if (D_INPUT_FORMAT == FORMAT_NONE) continue;
        vec4 g = weighted_gradients(i);
        gradients += g;
        products += g * x;
    }
    vec3 sums = vec3(dot(squares, vec4(1)), dot(gradients, vec4(1)), dot(products, vec4(1)));
    return reduce_sum(sums) / float(push.features);
}

void store_gradients(float mean, float scale, vec3 means) {
    float mean_gradient = SUBTRACTS_MEAN != 0 ? means.y : 0.0, slope = scale * scale * means.z;
    for (uint i = 4 * gl_LocalInvocationID.x; i < push.features; i += 4 * WORKGROUP_SIZE) {
        vec4 four = scale * (weighted_gradients(i) - mean_gradient - centred(i, mean) * slope);
        if (RESIDUAL_FORMAT != FORMAT_NONE) four += load_residual(i);
        store_four(i, four);
    }
}

void main() {
    float mean = mean_of_input();
    vec3 means = means_of_products(mean);
    float scale = inversesqrt(means.x + push.epsilon);
    if (D_INPUT_FORMAT != FORMAT_NONE) store_gradients(mean, scale, means);
    if (HAS_STATISTICS == 0 || gl_LocalInvocationID.x != 0) return;
    uint token = workgroup().y * push.positions + workgroup().x;
    statistics_store2(FORMAT_F32, true, 2 * token, 1, vec2(mean, scale));
}
