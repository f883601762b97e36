/* Selection of the greatest numbers of rows, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_SELECT_H
#define VKATTN_INTERFACE_SELECT_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_SELECT_INPUT 0
#define BINDING_SELECT_RANKS 1
#define BINDING_SELECT_INDICES 2
#define BINDING_SELECT_TO_RANKS 3
#define BINDING_SELECT_TO_INDICES 4
#define BINDING_SELECT_OUTPUT 5

#define SELECT_WORKGROUP_SIZE 128
#define SELECT_MOST 2048 /* numbers that are selected of a row */

/* INPUT_FORMAT: of the numbers; FORMAT_NONE: their ranks are given. HAS_INDICES: and their indices. KEEPS_RANKS: of what is
 * selected. OUTPUT_FORMAT: of values; FORMAT_NONE: there are none. SORTED_LEN: selected numbers, up to a power of two */
#define SELECT_CONSTANTS(X)                                                                                            \
    X(0, INPUT_FORMAT, 0)                                                                                              \
    X(1, HAS_INDICES, 0)                                                                                               \
    X(2, KEEPS_RANKS, 0)                                                                                               \
    X(3, OUTPUT_FORMAT, 0)                                                                                             \
    X(4, SORTED_LEN, SELECT_MOST)

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
