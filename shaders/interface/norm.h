/* RMSNorm and LayerNorm, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_NORM_H
#define VKATTN_INTERFACE_NORM_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_NORM_INPUT 0
#define BINDING_NORM_WEIGHT 1
#define BINDING_NORM_BIAS 2
#define BINDING_NORM_OUTPUT 3
#define BINDING_NORM_RESIDUAL 4
#define BINDING_NORM_GATE 5

#define NORM_WORKGROUP_SIZE 64 /* a power of two */

/* IN_FOURS: features are whole fours, and rows of 16 bits begin at whole words */
#define NORM_CONSTANTS(X)                                                                                              \
    X(0, SUBTRACTS_MEAN, 0)                                                                                            \
    X(1, INPUT_FORMAT, 1)                                                                                              \
    X(2, WEIGHT_FORMAT, 1)                                                                                             \
    X(3, BIAS_FORMAT, 0)                                                                                               \
    X(4, OUTPUT_FORMAT, 1)                                                                                             \
    X(5, OUTPUT_PAIRS, 0)                                                                                              \
    X(6, RESIDUAL_FORMAT, 0)                                                                                           \
    X(7, GATE_FORMAT, 0)                                                                                               \
    X(8, IN_FOURS, 0)

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
