// RMSNorm (Zhang and Sennrich, 2019) and LayerNorm (Ba et al., 2016) of each token.
//
// output = (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * weight + bias; RMSNorm takes the mean as 0
// input [B,L,N], weight [N], bias [N] -> output [B,L,N], which may be the input
// grid: (L, B), one workgroup a token; an invocation owns the pairs 2 * (local index + n * NORM_WORKGROUP_SIZE), so
// that it alone reads and writes them and two 16-bit values may share a word
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface.h"

NORM_CONSTANTS(VKATTN_CONSTANT)

layout(push_constant, std430) uniform PushBlock { NormPush push; };

#include "lib/bases.glsl"

layout(set = 0, binding = BINDING_NORM_INPUT, std430) readonly buffer InputBuffer { uint input_words[]; };
layout(set = 0, binding = BINDING_NORM_WEIGHT, std430) readonly buffer WeightBuffer { uint weight_words[]; };
layout(set = 0, binding = BINDING_NORM_BIAS, std430) readonly buffer BiasBuffer { uint bias_words[]; };
layout(set = 0, binding = BINDING_NORM_OUTPUT, std430) buffer OutputBuffer { uint output_words[]; };

#define WORDS input_words
#define BINDING BINDING_NORM_INPUT
#define LOAD load_input
#define LOAD4 load_input4
#define LOAD_QUANTISED load_quantised_input
#include "lib/load.glsl"

#define WORDS weight_words
#define BINDING BINDING_NORM_WEIGHT
#define LOAD load_weight
#define LOAD4 load_weight4
#define LOAD_QUANTISED load_quantised_weight
#include "lib/load.glsl"

#define WORDS bias_words
#define BINDING BINDING_NORM_BIAS
#define LOAD load_bias
#define LOAD4 load_bias4
#define LOAD_QUANTISED load_quantised_bias
#include "lib/load.glsl"

#include "lib/round.glsl"

#define WORDS output_words
#define BINDING BINDING_NORM_OUTPUT
#define STORE store_output
#define STORE2 store_output2
#include "lib/store.glsl"

#define REDUCE_SIZE NORM_WORKGROUP_SIZE
#include "lib/reduce.glsl"

uint input_start() { return gl_WorkGroupID.y * push.input_strides[0] + gl_WorkGroupID.x * push.input_strides[1]; }

float sum_of_own(float mean, bool squared) {
    float sum = 0.0;
    for (uint i = 2 * gl_LocalInvocationID.x; i < push.features; i += 2 * NORM_WORKGROUP_SIZE)
        for (uint feature = i; feature < min(i + 2, push.features); ++feature) {
            float x = load_input(INPUT_FORMAT, input_start() + feature) - mean;
            sum += squared ? x * x : x;
        }
    return sum;
}

float normalised(uint feature, float mean, float scale) {
    float x = (load_input(INPUT_FORMAT, input_start() + feature) - mean) * scale * load_weight(WEIGHT_FORMAT, feature);
    return BIAS_FORMAT != FORMAT_NONE ? x + load_bias(BIAS_FORMAT, feature) : x;
}

void main() {
    float features = float(push.features);
    float mean = 0.0;
    if (SUBTRACTS_MEAN != 0u) mean = reduce_sum(sum_of_own(0.0, false)) / features;
    float scale = inversesqrt(reduce_sum(sum_of_own(mean, true)) / features + push.epsilon);

    uint start = gl_WorkGroupID.y * push.output_strides[0] + gl_WorkGroupID.x * push.output_strides[1];
    for (uint i = 2 * gl_LocalInvocationID.x; i < push.features; i += 2 * NORM_WORKGROUP_SIZE) {
        float first = normalised(i, mean, scale);
        if (i + 1 < push.features)
            store_output2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0u, start + i, 1, vec2(first, normalised(i + 1, mean, scale)));
        else
            store_output(OUTPUT_FORMAT, start + i, first);
    }
}
