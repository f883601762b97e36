/* RMSNorm and LayerNorm, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_NORM_H
#define VKATTN_INTERFACE_NORM_H

#include "common.h"

#define NORM_TENSORS(X)                                                                                                \
    X(NORM, 0, input, INPUT, INPUT, Read, Tokens, BLN)                                                                 \
    X(NORM, 1, weight, WEIGHT, WEIGHT, Read, Vector, N)                                                                \
    X(NORM, 2, bias, BIAS, BIAS, Read, Vector, N)                                                                      \
    X(NORM, 3, output, OUTPUT, OUTPUT, Written, Tokens, BLN)                                                           \
    X(NORM, 4, residual, RESIDUAL, RESIDUAL, Read, OptionalTokens, BLN)                                                \
    X(NORM, 5, gate, GATE, MULTIPLIER, Read, OptionalTokens, BLN)
VKATTN_BINDINGS(NORM_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

/* WORKGROUP_SIZE: a power of two. IN_FOURS: features are whole fours, and rows of 16 bits begin at whole words */
#define NORM_CONSTANTS(X)                                                                                              \
    X(0, WORKGROUP_SIZE, 64)                                                                                           \
    X(1, SUBTRACTS_MEAN, 0)                                                                                            \
    X(2, INPUT_FORMAT, 1)                                                                                              \
    X(3, WEIGHT_FORMAT, 1)                                                                                             \
    X(4, BIAS_FORMAT, 0)                                                                                               \
    X(5, OUTPUT_FORMAT, 1)                                                                                             \
    X(6, OUTPUT_PAIRS, 0)                                                                                              \
    X(7, RESIDUAL_FORMAT, 0)                                                                                           \
    X(8, GATE_FORMAT, 0)                                                                                               \
    X(9, IN_FOURS, 0)

struct NormPush {
    uint first_group[3];
    uint bases[4];
    uint features;
    uint input_strides[2]; /* batch, position */
    uint output_strides[2];
    uint residual_strides[2];
    uint gate_strides[2];
    float epsilon;
};

#ifdef __cplusplus
VKATTN_INTERFACE(norm, Norm, NORM_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
