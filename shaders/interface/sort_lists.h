/* Sorting of lists of keys, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_SORT_LISTS_H
#define VKATTN_INTERFACE_SORT_LISTS_H

#include "common.h"

#define SORT_LISTS_TENSORS(X)                                                                                          \
    X(SORT_LISTS, 0, from, FROM, WORKSPACE, Read, Own, ANY)                                                            \
    X(SORT_LISTS, 1, to, TO, WORKSPACE, Written, Own, ANY)
VKATTN_BINDINGS(SORT_LISTS_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define SORT_LISTS_WORKGROUP_SIZE 128
#define SORT_LISTS_CHUNK 2048 /* entries that a workgroup sorts in shared memory */

/* SORTED_LEN: entries that it sorts at a time, a power of two, at most SORT_LISTS_CHUNK */
#define SORT_LISTS_CONSTANTS(X) X(0, SORTED_LEN, SORT_LISTS_CHUNK)

struct SortListsPush {
    uint first_group[3];
    uint bases[4];
    uint len; /* entries of a list */
    uint heads;
    uint positions;
    uint blocks;          /* entries that are not below it name nothing */
    uint from_strides[3]; /* of the lists that are sorted: batch, head, position */
    uint run;             /* merge_lists: entries that are sorted already */
};

#ifdef __cplusplus
VKATTN_INTERFACE(sort_lists, SortLists, SORT_LISTS_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
