/* Key lists of a mask's visible positions, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_MASK_INDICES_H
#define VKATTN_INTERFACE_MASK_INDICES_H

#include "common.h"

#define MASK_INDICES_TENSORS(X)                                                                                        \
    X(MASK_INDICES, 0, attn_mask, MASK, ATTN_MASK, Read, Own, ANY)                                                     \
    X(MASK_INDICES, 1, key_indices, KEY_INDICES, KEY_INDICES, Written, I32, BHQN)
VKATTN_BINDINGS(MASK_INDICES_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define MASK_INDICES_WORKGROUP_SIZE 128
#define MASK_INDICES_KEYS 8u /* neighbours that an invocation looks at */

#define MASK_INDICES_CONSTANTS(X) X(0, MASK_FORMAT, 1)

struct MaskIndicesPush {
    uint first_group[3];
    uint bases[1];
    uint mask_len;
    uint list_len;
    uint attn_mask_strides[3]; /* batch, head, query */
    uint key_indices_strides[3];
};

#ifdef __cplusplus
VKATTN_INTERFACE(mask_indices, MaskIndices, MASK_INDICES_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
