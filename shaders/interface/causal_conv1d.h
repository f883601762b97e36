/* The causal convolution over tokens, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_CAUSAL_CONV1D_H
#define VKATTN_INTERFACE_CAUSAL_CONV1D_H

#include "common.h"
#include "recurrent_states.h"

#define CAUSAL_CONV1D_OWN_TENSORS(X)                                                                                   \
    X(CAUSAL_CONV1D, 0, input, INPUT, INPUT, Read, Tokens, BLN)                                                        \
    X(CAUSAL_CONV1D, 1, weight, WEIGHT, WEIGHT, Read, Own, NK)                                                         \
    X(CAUSAL_CONV1D, 2, bias, BIAS, BIAS, Read, Vector, N)                                                             \
    X(CAUSAL_CONV1D, 3, output, OUTPUT, OUTPUT, Written, Tokens, BLN)
#define CAUSAL_CONV1D_TENSORS(X) CAUSAL_CONV1D_OWN_TENSORS(X) RECURRENT_TENSORS(X, CAUSAL_CONV1D, 4)
VKATTN_BINDINGS(CAUSAL_CONV1D_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define CAUSAL_CONV1D_WORKGROUP_SIZE 64
#define CAUSAL_CONV1D_TOKENS 16   /* of an invocation: at least those whose states are kept */
#define CAUSAL_CONV1D_MOST_TAPS 4 /* K */

/* TAPS: K. OUTPUT_PAIRS: neighbours of 16 bits share words. HAS_SLOTS etc.: the tensor is there. */
#define CAUSAL_CONV1D_CONSTANTS(X)                                                                                     \
    X(0, INPUT_FORMAT, 1)                                                                                              \
    X(1, WEIGHT_FORMAT, 1)                                                                                             \
    X(2, BIAS_FORMAT, 0)                                                                                               \
    X(3, OUTPUT_FORMAT, 1)                                                                                             \
    X(4, OUTPUT_PAIRS, 0)                                                                                              \
    X(5, TAPS, 4)                                                                                                      \
    X(6, ACTIVATION, 0)                                                                                                \
    X(7, HAS_INITIAL, 0)                                                                                               \
    X(8, HAS_FINAL, 0)                                                                                                 \
    X(9, HAS_CU_SEQLENS, 0)                                                                                            \
    X(10, HAS_SLOTS, 0)                                                                                                \
    X(11, KEEPS_TOKEN_STATES, 0)                                                                                       \
    X(12, HAS_ACCEPTED, 0)

struct CausalConv1dPush {
    uint first_group[3];
    uint bases[4];
    uint channels;
    uint len;     /* of a sequence that is not packed */
    uint total;   /* packed rows */
    uint longest; /* packed sequences are cut there */
    uint sequences;
    uint states;           /* of the initial and the final ones */
    uint drafts;           /* tokens of a sequence in token_states */
    uint input_strides[2]; /* batch, position */
    uint output_strides[2];
};

#ifdef __cplusplus
VKATTN_INTERFACE(causal_conv1d, CausalConv1d, CAUSAL_CONV1D_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
