/* Embedding, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_EMBEDDING_H
#define VKATTN_INTERFACE_EMBEDDING_H

#include "common.h"

#define EMBEDDING_TENSORS(X)                                                                                           \
    X(EMBEDDING, 0, tokens, TOKENS, TOKENS, Read, Own, BL)                                                             \
    X(EMBEDDING, 1, weight, WEIGHT, WEIGHT, Read, Own, RN)                                                             \
    X(EMBEDDING, 2, output, OUTPUT, OUTPUT, Written, Tokens, BLN)
VKATTN_BINDINGS(EMBEDDING_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define EMBEDDING_WORKGROUP_SIZE 64

#define EMBEDDING_CONSTANTS(X)                                                                                         \
    X(0, WEIGHT_FORMAT, 1)                                                                                             \
    X(1, OUTPUT_FORMAT, 1)                                                                                             \
    X(2, OUTPUT_PAIRS, 0)

struct EmbeddingPush {
    uint first_group[3];
    uint bases[4];
    uint rows;      /* of weight */
    uint first_row; /* of this dispatch's part of it, and how many */
    uint part_rows;
    uint features;
    uint tokens_strides[2]; /* batch, position */
    uint row_stride;
    uint output_strides[2];
};

#ifdef __cplusplus
VKATTN_INTERFACE(embedding, Embedding, EMBEDDING_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
