/* Rotary position embedding, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_ROPE_H
#define VKATTN_INTERFACE_ROPE_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_ROPE_INPUT 0
#define BINDING_ROPE_OUTPUT 1
#define BINDING_ROPE_FREQUENCIES 2
#define BINDING_ROPE_PAST_LENGTHS 3
#define BINDING_ROPE_CU_SEQLENS 4
#define BINDING_ROPE_NORM 5

#define ROPE_CONSTANTS(X)                                                                                              \
    X(0, INTERLEAVED, 0)                                                                                               \
    X(1, HAS_PAST_LENGTHS, 0)                                                                                          \
    X(2, HAS_CU_SEQLENS, 0)                                                                                            \
    X(3, NORM_FORMAT, 0)

struct RopePush {
    uint first_group[3];
    uint bases[4];
    uint input_strides[3]; /* batch, head, position */
    uint output_strides[3];
    uint positions; /* tokens of a sequence, at most */
    uint pairs;     /* of a vector */
    uint offset;    /* position of the first token; past_lengths takes its place */
    uint total;     /* packed tokens */
    uint sequences; /* that they are packed of */
    float epsilon;  /* of the norm */
};

#ifdef __cplusplus
VKATTN_INTERFACE(rope, Rope, ROPE_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
