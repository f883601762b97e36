/* Argmax, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_ARGMAX_H
#define VKATTN_INTERFACE_ARGMAX_H

#include "common.h"

/* parts: uint [B,L,parts,2], the key and the index of each part's greatest */
#define ARGMAX_TENSORS(X)                                                                                              \
    X(ARGMAX, 0, input, INPUT, INPUT, Read, Tokens, BLN)                                                               \
    X(ARGMAX, 1, tokens, TOKENS, TOKENS, Written, I32, BL)                                                             \
    X(ARGMAX, 2, values, VALUES, VALUES, Written, F32, BL)                                                             \
    X(ARGMAX, 3, parts, PARTS, WORKSPACE, Written, Own, ANY)
VKATTN_BINDINGS(ARGMAX_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define ARGMAX_WORKGROUP_SIZE 128 /* a power of two */
#define ARGMAX_PART_ELEMENTS 8192 /* of a row, that one workgroup looks at */

#define ARGMAX_CONSTANTS(X)                                                                                            \
    X(0, INPUT_FORMAT, 1)                                                                                              \
    X(1, WRITES_PARTS, 0)                                                                                              \
    X(2, READS_PARTS, 0)                                                                                               \
    X(3, HAS_VALUES, 0)

struct ArgmaxPush {
    uint first_group[3];
    uint bases[4];
    uint features;
    uint parts;            /* of a row */
    uint rows;             /* L */
    uint input_strides[2]; /* batch, position */
    uint tokens_strides[2];
    uint values_strides[2];
};

#ifdef __cplusplus
VKATTN_INTERFACE(argmax, Argmax, ARGMAX_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
