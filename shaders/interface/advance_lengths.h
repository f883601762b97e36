/* Counting of appended tokens, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_ADVANCE_LENGTHS_H
#define VKATTN_INTERFACE_ADVANCE_LENGTHS_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_ADVANCE_LENGTHS 0
#define BINDING_ADVANCE_CU_SEQLENS 1

#define ADVANCE_CONSTANTS(X) X(0, HAS_CU_SEQLENS, 0)

struct AdvancePush {
    uint first_group[3];
    uint bases[4];
    uint sequences;
    uint tokens; /* of each sequence; with cu_seqlens at most */
    uint capacity;
    uint total; /* packed tokens */
};

#ifdef __cplusplus
VKATTN_INTERFACE(advance_lengths, Advance, ADVANCE_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
