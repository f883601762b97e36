/* The gradient of embedding's weight, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_EMBEDDING_BACKWARD_H
#define VKATTN_INTERFACE_EMBEDDING_BACKWARD_H

#include "common.h"

#define EMBEDDING_BACKWARD_TENSORS(X)                                                                                  \
    X(EMBEDDING_BACKWARD, 0, tokens, TOKENS, TOKENS, Read, Own, BL)                                                    \
    X(EMBEDDING_BACKWARD, 1, d_output, D_OUTPUT, D_OUTPUT, Read, Tokens, BLN)                                          \
    X(EMBEDDING_BACKWARD, 2, d_weight, D_WEIGHT, D_WEIGHT, Written, Own, RN)
VKATTN_BINDINGS(EMBEDDING_BACKWARD_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define EMBEDDING_BACKWARD_WORKGROUP_SIZE 64
#define EMBEDDING_BACKWARD_FEATURES 1024 /* of a row, that one workgroup computes */
#define EMBEDDING_BACKWARD_TOKENS 256    /* that it looks at together */

/* IN_FOURS: features are whole fours, and rows of 16 bits begin at whole words */
#define EMBEDDING_BACKWARD_CONSTANTS(X)                                                                                \
    X(0, D_OUTPUT_FORMAT, 1)                                                                                           \
    X(1, D_WEIGHT_FORMAT, 1)                                                                                           \
    X(2, IN_FOURS, 0)                                                                                                  \
    X(3, WRITES_ZEROS, 0)                                                                                              \
    X(4, ACCUMULATES, 0)

struct EmbeddingBackwardPush {
    uint first_group[3];
    uint bases[1];
    uint positions; /* in all, and of a sequence */
    uint len;
    uint first_row; /* of this dispatch's part of d_weight, and how many */
    uint part_rows;
    uint features;
    uint row_stride;
    uint tokens_strides[2]; /* batch, position */
    uint d_output_strides[2];
};

#ifdef __cplusplus
VKATTN_INTERFACE(embedding_backward, EmbeddingBackward, EMBEDDING_BACKWARD_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
