/* Merging of partial attention, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_MERGE_H
#define VKATTN_INTERFACE_MERGE_H

#include "common.h"

#define MERGE_TENSORS(X)                                                                                               \
    X(MERGE, 0, partial_output, PARTIAL_OUTPUT, PARTIAL_OUTPUT, Read, Own, BHLD)                                       \
    X(MERGE, 1, partial_log_sum_exp, PARTIAL_LOG_SUM_EXP, PARTIAL_LOG_SUM_EXP, Read, Own, BHL)                         \
    X(MERGE, 2, output, OUTPUT, OUTPUT, Written, Rows, BHLD)                                                           \
    X(MERGE, 3, log_sum_exp, LOG_SUM_EXP, LOG_SUM_EXP, Written, Own, BHL)
VKATTN_BINDINGS(MERGE_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define MERGE_WORKGROUP_SIZE 32

#define MERGE_CONSTANTS(X)                                                                                             \
    X(0, PARTIAL_OUTPUT_FORMAT, 1)                                                                                     \
    X(1, OUTPUT_FORMAT, 1)                                                                                             \
    X(2, OUTPUT_PAIRS, 0)                                                                                              \
    X(3, ACCUMULATES, 0)                                                                                               \
    X(4, HAS_LOG_SUM_EXP, 0)

struct MergePush {
    uint first_group[3];
    uint bases[4];
    uint partial_output_strides[4];      /* batch, head, position, element */
    uint partial_log_sum_exp_strides[3]; /* batch, head, position */
    uint log_sum_exp_part_stride;
    uint output_strides[4];
    uint output_part_stride;
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
