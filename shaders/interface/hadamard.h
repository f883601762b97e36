/* The Walsh-Hadamard transform of rows, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_HADAMARD_H
#define VKATTN_INTERFACE_HADAMARD_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_HADAMARD_SOURCE 0
#define BINDING_HADAMARD_TARGET 1
#define BINDING_HADAMARD_CU_SEQLENS 2

#define HADAMARD_WORKGROUP_SIZE 64
#define HADAMARD_TILE 512 /* elements of a workgroup, a power of two; no block is larger */

/* BLOCK: elements that are mixed, a power of two */
#define HADAMARD_CONSTANTS(X)                                                                                          \
    X(0, BLOCK, 32)                                                                                                    \
    X(1, HEAD_DIM, 32)                                                                                                 \
    X(2, SOURCE_FORMAT, 1)                                                                                             \
    X(3, TARGET_FORMAT, 1)                                                                                             \
    X(4, TARGET_PAIRS, 0)                                                                                              \
    X(5, PACKED, 0)

struct HadamardPush {
    uint first_group[3];
    uint bases[4];
    uint source_strides[4]; /* batch, head, position, element */
    uint target_strides[4];
    uint elements;  /* of all rows of a head */
    uint sequences; /* that packed rows are of */
    uint positions; /* tokens of the longest */
    float scale;    /* of the orthonormal transform */
};

#ifdef __cplusplus
VKATTN_INTERFACE(hadamard, Hadamard, HADAMARD_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
