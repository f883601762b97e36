/* The backward pass of norms, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_NORM_BACKWARD_H
#define VKATTN_INTERFACE_NORM_BACKWARD_H

#include "common.h"

/* statistics: F32 [B*L,2], of each token the mean and what its differences from it are multiplied with */
#define NORM_BACKWARD_TENSORS(X)                                                                                       \
    X(NORM_BACKWARD, 0, input, INPUT, INPUT, Read, Tokens, BLN)                                                        \
    X(NORM_BACKWARD, 1, weight, WEIGHT, WEIGHT, Read, Vector, N)                                                       \
    X(NORM_BACKWARD, 2, d_output, D_OUTPUT, D_OUTPUT, Read, Tokens, BLN)                                               \
    X(NORM_BACKWARD, 3, residual, RESIDUAL, RESIDUAL, Read, OptionalTokens, BLN)                                       \
    X(NORM_BACKWARD, 4, d_input, D_INPUT, D_INPUT, Written, OptionalTokens, BLN)                                       \
    X(NORM_BACKWARD, 5, statistics, STATISTICS, WORKSPACE, Written, Own, TS)
VKATTN_BINDINGS(NORM_BACKWARD_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

/* WORKGROUP_SIZE: a power of two. IN_FOURS: features are whole fours, and rows of 16 bits begin at whole words */
#define NORM_BACKWARD_CONSTANTS(X)                                                                                     \
    X(0, WORKGROUP_SIZE, 64)                                                                                           \
    X(1, SUBTRACTS_MEAN, 0)                                                                                            \
    X(2, INPUT_FORMAT, 1)                                                                                              \
    X(3, WEIGHT_FORMAT, 1)                                                                                             \
    X(4, D_OUTPUT_FORMAT, 1)                                                                                           \
    X(5, RESIDUAL_FORMAT, 0)                                                                                           \
    X(6, D_INPUT_FORMAT, 0)                                                                                            \
    X(7, D_INPUT_PAIRS, 0)                                                                                             \
    X(8, HAS_STATISTICS, 0)                                                                                            \
    X(9, IN_FOURS, 0)

struct NormBackwardPush {
    uint first_group[3];
    uint bases[2];
    uint features;
    uint positions;        /* tokens of a batch entry */
    uint input_strides[2]; /* batch, position */
    uint d_output_strides[2];
    uint residual_strides[2];
    uint d_input_strides[2];
    float epsilon;
};

#ifdef __cplusplus
VKATTN_INTERFACE(norm_backward, NormBackward, NORM_BACKWARD_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
