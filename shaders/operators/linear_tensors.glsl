// The constants, push constants and tensors of the linear kernels, and what becomes of a sum.
#ifndef LINEAR_TENSORS_GLSL
#define LINEAR_TENSORS_GLSL

#include "interface/linear.h"
#include "operators/activation.glsl"

LINEAR_CONSTANTS(VKATTN_CONSTANT)

#define PUSH LinearPush
#include "common/push.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_LINEAR_INPUT
#define TENSOR_QUANTISED
#define TENSOR_VECTORS
#include "common/tensor.glsl"

#define TENSOR weight
#define TENSOR_BINDING BINDING_LINEAR_WEIGHT
#define TENSOR_VECTORS
#ifdef QUANTISED_WEIGHT
#define TENSOR_QUANTISED
#endif
#include "common/tensor.glsl"

#define TENSOR bias
#define TENSOR_BINDING BINDING_LINEAR_BIAS
#include "common/tensor.glsl"

#define TENSOR residual
#define TENSOR_BINDING BINDING_LINEAR_RESIDUAL
#include "common/tensor.glsl"

#define TENSOR multiplier
#define TENSOR_BINDING BINDING_LINEAR_MULTIPLIER
#include "common/tensor.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_LINEAR_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

uint input_element(uint row, uint feature) {
    return row / push.positions * push.input_strides[0] + row % push.positions * push.input_strides[1] +
           workgroup().z * push.input_strides[2] + feature;
}

uint weight_element(uint o, uint feature) {
    uint matrix = GATED != 0 ? o % 2 : workgroup().z;
    if (GATED != 0) o /= 2;
    return o * push.weight_strides[0] + feature * push.weight_strides[1] + matrix * push.weight_strides[2];
}

uint output_element(uint row, uint o) {
    return row / push.positions * push.output_strides[0] + row % push.positions * push.output_strides[1] +
           o / push.head_dim * push.output_strides[2] + o % push.head_dim * push.output_strides[3] +
           workgroup().z * push.output_strides[4];
}

uint token_element(const uint strides[2], uint row, uint o) {
    return row / push.positions * strides[0] + row % push.positions * strides[1] + o;
}

float add_residual(float value, uint row, uint o) {
    if (RESIDUAL_FORMAT == FORMAT_NONE) return value;
    return value + residual_load(RESIDUAL_FORMAT, token_element(push.residual_strides, row, o));
}

// What becomes of a sum: bias, activation, multiplier, residual.
float finish(float sum, uint row, uint o) {
    if (BIAS_FORMAT != FORMAT_NONE) sum += bias_load(BIAS_FORMAT, o + workgroup().z * push.bias_stride);
    sum = activate(ACTIVATION, sum);
    if (MULTIPLIER_FORMAT != FORMAT_NONE)
        sum *= multiplier_load(MULTIPLIER_FORMAT, token_element(push.multiplier_strides, row, o));
    return add_residual(sum, row, o);
}

// The same of a gate's sum, x, and of what it gates.
float finish_gated(vec2 sums, uint row, uint o) {
    if (BIAS_FORMAT != FORMAT_NONE)
        sums += vec2(bias_load(BIAS_FORMAT, o), bias_load(BIAS_FORMAT, o + push.bias_stride));
    return add_residual(activate(ACTIVATION, sums.x) * sums.y, row, o);
}

// Sums of neighbouring output features that become two neighbouring outputs.
const uint SUMS_OF_PAIR = GATED != 0 ? 4 : 2;

// Two neighbouring outputs of a row, as far as they exist, of the sums from feature `o` on: SUMS_OF_PAIR of them count.
void store_pair(uint row, uint o, vec4 sums) {
    if (row >= push.rows || o >= push.out_features) return;
    bool second = o + SUMS_OF_PAIR / 2 < push.out_features;
    // The last feature of an odd number once more in place of one behind it: drivers load both whatever `second` says, and the residual's next
    // element may be another workgroup's output.
    uint first = GATED != 0 ? o / 2 : o, next = first + uint(second);
    vec2 values;
    if (GATED != 0)
        values = vec2(finish_gated(sums.xy, row, first), finish_gated(sums.zw, row, next));
    else
        values = vec2(finish(sums.x, row, first), finish(sums.y, row, next));
    if (OUTPUT_PAIRS != 0 && second) {
        output_store2(OUTPUT_FORMAT, true, output_element(row, first), 1, values);
        return;
    }
    output_store(OUTPUT_FORMAT, output_element(row, first), values.x);
    if (second) output_store(OUTPUT_FORMAT, output_element(row, next), values.y);
}

#endif
