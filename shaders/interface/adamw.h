/* A step of AdamW, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_ADAMW_H
#define VKATTN_INTERFACE_ADAMW_H

#include "common.h"

#define ADAMW_TENSORS(X)                                                                                               \
    X(ADAMW, 0, parameter, PARAMETER, PARAMETER, Written, Own, E)                                                      \
    X(ADAMW, 1, gradient, GRADIENT, GRADIENT, Read, Own, E)                                                            \
    X(ADAMW, 2, first_moment, FIRST_MOMENT, FIRST_MOMENT, Written, Own, E)                                             \
    X(ADAMW, 3, second_moment, SECOND_MOMENT, SECOND_MOMENT, Written, Own, E)                                          \
    X(ADAMW, 4, step, STEP, STEP, Read, ContiguousI32, S)                                                              \
    X(ADAMW, 5, factor, FACTOR, FACTOR, Read, ContiguousF32, S)                                                        \
    X(ADAMW, 6, learning_rate, LEARNING_RATE, LEARNING_RATE, Read, ContiguousF32, S)                                   \
    X(ADAMW, 7, copy, COPY, COPY, Written, Own, E)
VKATTN_BINDINGS(ADAMW_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define ADAMW_WORKGROUP_SIZE 64
#define ADAMW_ELEMENTS 512 /* that one workgroup computes */

/* IN_FOURS: elements of 16 bits begin at a whole word */
#define ADAMW_CONSTANTS(X)                                                                                             \
    X(0, GRADIENT_FORMAT, 1)                                                                                           \
    X(1, COPY_FORMAT, 0)                                                                                               \
    X(2, HAS_FACTOR, 0)                                                                                                \
    X(3, IN_FOURS, 0)

struct AdamwPush {
    uint first_group[3];
    uint bases[2];
    uint elements;
    float one_minus_beta1;
    float one_minus_beta2;
    float log_beta1;
    float log_beta2;
    float epsilon;
    float weight_decay;
    float copy_scale;
};

#ifdef __cplusplus
VKATTN_INTERFACE(adamw, Adamw, ADAMW_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
