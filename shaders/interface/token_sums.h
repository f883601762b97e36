/* Sums over tokens, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_TOKEN_SUMS_H
#define VKATTN_INTERFACE_TOKEN_SUMS_H

#include "common.h"

/* statistics: of each token's norm, as norm_backward.h has them */
#define TOKEN_SUMS_TENSORS(X)                                                                                          \
    X(TOKEN_SUMS, 0, d_output, D_OUTPUT, D_OUTPUT, Read, Own, BLN)                                                     \
    X(TOKEN_SUMS, 1, input, INPUT, INPUT, Read, Own, BLN)                                                              \
    X(TOKEN_SUMS, 2, statistics, STATISTICS, WORKSPACE, Read, Own, TS)                                                 \
    X(TOKEN_SUMS, 3, sums, SUMS, D_BIAS, Written, Own, PN)
VKATTN_BINDINGS(TOKEN_SUMS_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define TOKEN_SUMS_WORKGROUP_SIZE 64

/* IN_FOURS: features are whole fours, and rows of 16 bits begin at whole words. ACCUMULATES: sums are added to what is there */
#define TOKEN_SUMS_CONSTANTS(X)                                                                                        \
    X(0, D_OUTPUT_FORMAT, 0)                                                                                           \
    X(1, INPUT_FORMAT, 0)                                                                                              \
    X(2, SUMS_FORMAT, 1)                                                                                               \
    X(3, SUMS_PAIRS, 0)                                                                                                \
    X(4, IN_FOURS, 0)                                                                                                  \
    X(5, ACCUMULATES, 0)

struct TokenSumsPush {
    uint first_group[3];
    uint bases[1];
    uint tokens;
    uint positions; /* tokens of a batch entry */
    uint tokens_of_part;
    uint features;
    uint d_output_strides[2]; /* batch, position */
    uint input_strides[2];
    uint sums_strides[1]; /* part */
};

#ifdef __cplusplus
VKATTN_INTERFACE(token_sums, TokenSums, TOKEN_SUMS_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
