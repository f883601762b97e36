/* Selection of the greatest numbers of rows, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_SELECT_H
#define VKATTN_INTERFACE_SELECT_H

#include "common.h"

/* Between two steps ranks and the indices that they stand for lie in the workspace. */
#define SELECT_TENSORS(X)                                                                                              \
    X(SELECT, 0, input, INPUT, INPUT, Read, Tokens, BLN)                                                               \
    X(SELECT, 1, ranks, RANKS, WORKSPACE, Read, Own, ANY)                                                              \
    X(SELECT, 2, from_indices, INDICES, WORKSPACE, Read, Own, ANY)                                                     \
    X(SELECT, 3, to_ranks, TO_RANKS, WORKSPACE, Written, Own, ANY)                                                     \
    X(SELECT, 4, indices, TO_INDICES, INDICES, Written, ContiguousI32, BLK)                                            \
    X(SELECT, 5, values, OUTPUT, VALUES, Written, OptionalTokens, BLK)
VKATTN_BINDINGS(SELECT_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define SELECT_WORKGROUP_SIZE 128 /* invocations; of select at least */
#define SELECT_GROUP 16           /* of invocations, whose sums are summed at once */
#define SELECT_MOST 2048          /* numbers that are selected of a row */

/* INPUT_FORMAT: of the numbers; FORMAT_NONE: their ranks are given. HAS_INDICES: and their indices. HAS_TO_RANKS: of what is
 * selected. Of sort_selected, OUTPUT_FORMAT: of values; FORMAT_NONE: there are none; HAS_TO_INDICES. SORTED_LEN: selected numbers, up to a power of two.
 * Of select, WORKGROUP_SIZE; KEPT: numbers of a chunk that an invocation has in registers; 0: it reads them again and again */
#define SELECT_CONSTANTS(X)                                                                                            \
    X(0, INPUT_FORMAT, 0)                                                                                              \
    X(1, HAS_INDICES, 0)                                                                                               \
    X(2, HAS_TO_RANKS, 0)                                                                                              \
    X(3, OUTPUT_FORMAT, 0)                                                                                             \
    X(4, SORTED_LEN, SELECT_MOST)                                                                                      \
    X(5, HAS_TO_INDICES, 0)                                                                                            \
    X(6, WORKGROUP_SIZE, SELECT_WORKGROUP_SIZE)                                                                        \
    X(7, KEPT, 0)

struct SelectPush {
    uint first_group[3];
    uint bases[4];
    uint positions; /* rows [B,L]: L */
    uint width;     /* numbers of a row */
    uint chunk;     /* numbers of a workgroup */
    uint most;      /* that are selected of a chunk */
    uint last_most; /* of the last chunk; more than it has: the rest are nothing, -1 */
    uint to_width;  /* from row to row of what is selected */
    uint input_strides[2];
    uint output_strides[2];
};

#ifdef __cplusplus
VKATTN_INTERFACE(select, Select, SELECT_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
