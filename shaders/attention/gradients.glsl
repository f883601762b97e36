// What the backward pass reads and writes beside attention's tensors, [B,Hq,Lq,Dv] and as the tensors are of which these are gradients.
#ifndef GRADIENTS_GLSL
#define GRADIENTS_GLSL

#include "attention/keys.glsl"
#include "attention/rows.glsl"

layout(set = 0, binding = BINDING_LOG_SUM_EXP, std430) readonly buffer LogSumExpBuffer { uint log_sum_exp_words[]; };

// As log_sum_exp has them. One kernel writes them, dispatches of the others read them side by side.
#ifdef WRITES_DELTAS
layout(set = 0, binding = BINDING_DELTA, std430) buffer DeltaBuffer { float deltas[]; };
#else
layout(set = 0, binding = BINDING_DELTA, std430) readonly buffer DeltaBuffer { float deltas[]; };
#endif

#define TENSOR d_output
#define TENSOR_BINDING BINDING_D_OUTPUT
#define TENSOR_VECTORS
#include "common/tensor.glsl"
#define TENSOR d_output
#include "common/tensor_row.glsl"

uint d_output_element(Row row) {
    return row.batch * parameters.d_output_strides[0] + row.query_head * parameters.d_output_strides[1] +
           query_row(row.batch, row.position) * parameters.d_output_strides[2];
}

// Dims `dim` (a multiple of 8) to `dim + 7`.
mat2x4 load_d_output_vector(Row row, uint dim) {
    return d_output_load_vector(D_OUTPUT_FORMAT, (GRADIENT_PAIRS & 1u) != 0u,
                                (GRADIENT_PAIRS & GRADIENTS_ALIGNED) != 0u, d_output_element(row), dim, V_HEAD_DIM,
                                parameters.d_output_strides[3]);
}

// Dims 4 * block to 4 * block + 3 of a row that has them.
vec4 load_d_output_block(Row row, uint block) {
    return d_output_load4(D_OUTPUT_FORMAT, (GRADIENT_PAIRS & 1u) != 0u,
                          d_output_element(row) + 4 * block * parameters.d_output_strides[3],
                          parameters.d_output_strides[3]);
}

uint load_log_sum_exp_bits(Row row) {
    return log_sum_exp_words[base_bytes(BINDING_LOG_SUM_EXP) / 4 + log_sum_exp_index(row)];
}

// Whether the row saw a key, and the logarithm of the sum of its exponentials, in units of log 2.
struct RowSum {
    bool saw;
    float log2_sum;
};

RowSum row_sum_of(uint bits) { return RowSum(bits != 0xff800000u, uintBitsToFloat(bits) * LOG2_E); }
RowSum load_row_sum(Row row) { return row_sum_of(load_log_sum_exp_bits(row)); }

float load_delta(Row row) { return deltas[base_bytes(BINDING_DELTA) / 4 + log_sum_exp_index(row)]; }

#endif
