/* Merging of partial attention, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_MERGE_H
#define VKATTN_INTERFACE_MERGE_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_MERGE_PARTIAL_OUTPUT 0
#define BINDING_MERGE_PARTIAL_LOG_SUM_EXP 1
#define BINDING_MERGE_OUTPUT 2
#define BINDING_MERGE_LOG_SUM_EXP 3

#define MERGE_WORKGROUP_SIZE 32

#define MERGE_CONSTANTS(X)                                                                                             \
    X(0, PARTIAL_FORMAT, 1)                                                                                            \
    X(1, OUTPUT_FORMAT, 1)                                                                                             \
    X(2, OUTPUT_PAIRS, 0)                                                                                              \
    X(3, ACCUMULATES, 0)                                                                                               \
    X(4, HAS_LOG_SUM_EXP, 0)

struct MergePush {
    uint first_group[3];
    uint bases[4];
    uint partial_strides[4];      /* batch, head, position, element */
    uint partial_sums_strides[4]; /* batch, head, position, part */
    uint output_strides[4];
    uint part_stride;
    uint parts;
    uint dims;
    uint heads;
    uint rows; /* of a head */
};

#ifdef __cplusplus
VKATTN_INTERFACE(merge, Merge, MERGE_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
