/* Softmax cross-entropy and its gradient, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_CROSS_ENTROPY_H
#define VKATTN_INTERFACE_CROSS_ENTROPY_H

#include "common.h"

/* scale: loss_scale over the number of labels that count */
#define CROSS_ENTROPY_TENSORS(X)                                                                                       \
    X(CROSS_ENTROPY, 0, input, INPUT, INPUT, Read, Tokens, BLN)                                                        \
    X(CROSS_ENTROPY, 1, labels, LABELS, LABELS, Read, I32, BL)                                                         \
    X(CROSS_ENTROPY, 2, loss_scale, LOSS_SCALE, LOSS_SCALE, Read, ContiguousF32, S)                                    \
    X(CROSS_ENTROPY, 3, loss, LOSS, LOSS, Written, F32, BL)                                                            \
    X(CROSS_ENTROPY, 4, mean_loss, MEAN_LOSS, MEAN_LOSS, Written, ContiguousF32, S)                                    \
    X(CROSS_ENTROPY, 5, d_input, D_INPUT, D_INPUT, Written, OptionalTokens, BLN)                                       \
    X(CROSS_ENTROPY, 6, scale, SCALE, WORKSPACE, Written, Own, S)
VKATTN_BINDINGS(CROSS_ENTROPY_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define CROSS_ENTROPY_MEAN_WORKGROUP_SIZE 128

/* WORKGROUP_SIZE: a power of two. IN_FOURS: features are whole fours, and rows of 16 bits begin at whole words */
#define CROSS_ENTROPY_CONSTANTS(X)                                                                                     \
    X(0, WORKGROUP_SIZE, 64)                                                                                           \
    X(1, INPUT_FORMAT, 1)                                                                                              \
    X(2, D_INPUT_FORMAT, 0)                                                                                            \
    X(3, D_INPUT_PAIRS, 0)                                                                                             \
    X(4, HAS_LOSS, 0)                                                                                                  \
    X(5, HAS_MEAN_LOSS, 0)                                                                                             \
    X(6, HAS_LOSS_SCALE, 0)                                                                                            \
    X(7, IN_FOURS, 0)

struct CrossEntropyPush {
    uint first_group[3];
    uint bases[2];
    uint features;
    uint batch;
    uint len;
    uint ignore_label;     /* of 0 to features - 1, or another number: none */
    uint input_strides[2]; /* batch, position */
    uint labels_strides[2];
    uint loss_strides[2];
    uint d_input_strides[2];
};

#ifdef __cplusplus
VKATTN_INTERFACE(cross_entropy, CrossEntropy, CROSS_ENTROPY_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
