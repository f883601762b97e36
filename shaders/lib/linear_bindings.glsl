// The constants, push constants, tensors and epilogue of the linear kernels. A kernel that reads sixteen bytes at a
// time defines WITH_VECTORS before.

#include "../interface.h"

LINEAR_CONSTANTS(VKATTN_CONSTANT)

layout(push_constant, std430) uniform PushBlock { LinearPush push; };

#include "bases.glsl"

layout(set = 0, binding = BINDING_LINEAR_INPUT, std430) readonly buffer InputBuffer { uint input_words[]; };
layout(set = 0, binding = BINDING_LINEAR_WEIGHT, std430) readonly buffer WeightBuffer { uint weight_words[]; };
#ifdef WITH_VECTORS
layout(set = 0, binding = BINDING_LINEAR_INPUT, std430) readonly buffer InputVectors { uvec4 input_vectors[]; };
layout(set = 0, binding = BINDING_LINEAR_WEIGHT, std430) readonly buffer WeightVectors { uvec4 weight_vectors[]; };
#endif
layout(set = 0, binding = BINDING_LINEAR_BIAS, std430) readonly buffer BiasBuffer { uint bias_words[]; };
layout(set = 0, binding = BINDING_LINEAR_RESIDUAL, std430) readonly buffer ResidualBuffer { uint residual_words[]; };
layout(set = 0, binding = BINDING_LINEAR_MULTIPLIER, std430) readonly buffer MultiplierBuffer {
    uint multiplier_words[];
};
layout(set = 0, binding = BINDING_LINEAR_OUTPUT, std430) buffer OutputBuffer { uint output_words[]; };

#define WORDS input_words
#define BINDING BINDING_LINEAR_INPUT
#define LOAD load_input
#define LOAD4 load_input4
#define LOAD_QUANTISED load_quantised_input
#define VECTORS input_vectors
#define LOAD8 load_input8
#define LOAD8_HALVES load_input8_halves
#define LOAD8_QUANTISED load_quantised_input8
#include "load.glsl"

#define WORDS weight_words
#define BINDING BINDING_LINEAR_WEIGHT
#define LOAD load_weight
#define LOAD4 load_weight4
#define LOAD_QUANTISED load_quantised_weight
#define VECTORS weight_vectors
#define LOAD8 load_weight8
#define LOAD8_HALVES load_weight8_halves
#define LOAD8_QUANTISED load_quantised_weight8
#include "load.glsl"

#define WORDS bias_words
#define BINDING BINDING_LINEAR_BIAS
#define LOAD load_bias
#define LOAD4 load_bias4
#define LOAD_QUANTISED load_quantised_bias
#include "load.glsl"

#define WORDS residual_words
#define BINDING BINDING_LINEAR_RESIDUAL
#define LOAD load_residual
#define LOAD4 load_residual4
#define LOAD_QUANTISED load_quantised_residual
#include "load.glsl"

#define WORDS multiplier_words
#define BINDING BINDING_LINEAR_MULTIPLIER
#define LOAD load_multiplier
#define LOAD4 load_multiplier4
#define LOAD_QUANTISED load_quantised_multiplier
#include "load.glsl"

#include "activation.glsl"
#include "round.glsl"

#define WORDS output_words
#define BINDING BINDING_LINEAR_OUTPUT
#define STORE store_output
#define STORE2 store_output2
#include "store.glsl"

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

uint token_element(const uint strides[2], uint row, uint o) {
    return row / push.positions * strides[0] + row % push.positions * strides[1] + o;
}

// What becomes of a sum: bias, activation, multiplier, residual.
float finish(float sum, uint row, uint o) {
    if (BIAS_FORMAT != FORMAT_NONE) sum += load_bias(BIAS_FORMAT, o + gl_WorkGroupID.z * push.bias_stride);
    sum = activate(ACTIVATION, sum);
    if (MULTIPLIER_FORMAT != FORMAT_NONE)
        sum *= load_multiplier(MULTIPLIER_FORMAT, token_element(push.multiplier_strides, row, o));
    if (RESIDUAL_FORMAT != FORMAT_NONE)
        sum += load_residual(RESIDUAL_FORMAT, token_element(push.residual_strides, row, o));
    return sum;
}
