/* Gated activations and their gradients, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_GATED_ACTIVATION_H
#define VKATTN_INTERFACE_GATED_ACTIVATION_H

#include "common.h"

/* output is there, or what its gradients take */
#define GATED_ACTIVATION_TENSORS(X)                                                                                    \
    X(GATED_ACTIVATION, 0, gate, GATE, MULTIPLIER, Read, Tokens, BLN)                                                  \
    X(GATED_ACTIVATION, 1, input, INPUT, INPUT, Read, OptionalTokens, BLN)                                             \
    X(GATED_ACTIVATION, 2, output, OUTPUT, OUTPUT, Written, OptionalTokens, BLN)                                       \
    X(GATED_ACTIVATION, 3, d_output, D_OUTPUT, D_OUTPUT, Read, OptionalTokens, BLN)                                    \
    X(GATED_ACTIVATION, 4, d_gate, D_GATE, D_GATE, Written, OptionalTokens, BLN)                                       \
    X(GATED_ACTIVATION, 5, d_input, D_INPUT, D_INPUT, Written, OptionalTokens, BLN)
VKATTN_BINDINGS(GATED_ACTIVATION_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define GATED_ACTIVATION_WORKGROUP_SIZE 64
#define GATED_ACTIVATION_FEATURES 1024 /* of a row, that one workgroup computes */

/* IN_FOURS: rows of 16 bits begin at whole words */
#define GATED_ACTIVATION_CONSTANTS(X)                                                                                  \
    X(0, ACTIVATION, 0)                                                                                                \
    X(1, GATE_FORMAT, 1)                                                                                               \
    X(2, INPUT_FORMAT, 0)                                                                                              \
    X(3, OUTPUT_FORMAT, 0)                                                                                             \
    X(4, D_OUTPUT_FORMAT, 0)                                                                                           \
    X(5, D_GATE_FORMAT, 0)                                                                                             \
    X(6, D_INPUT_FORMAT, 0)                                                                                            \
    X(7, IN_FOURS, 0)

struct GatedActivationPush {
    uint first_group[3];
    uint bases[2];
    uint features;
    uint gate_strides[2]; /* batch, position */
    uint input_strides[2];
    uint output_strides[2];
    uint d_output_strides[2];
    uint d_gate_strides[2];
    uint d_input_strides[2];
};

#ifdef __cplusplus
VKATTN_INTERFACE(gated_activation, GatedActivation, GATED_ACTIVATION_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
