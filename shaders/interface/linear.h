/* Linear layers, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_LINEAR_H
#define VKATTN_INTERFACE_LINEAR_H

#include "common.h"

/* norm_weight: of the input's RMSNorm. Sizes and strides are those of LinearPush. */
#define LINEAR_TENSORS(X)                                                                                              \
    X(LINEAR, 0, input, INPUT, INPUT, Read, Tokens, BLI)                                                               \
    X(LINEAR, 1, weight, WEIGHT, WEIGHT, Read, Own, OI)                                                                \
    X(LINEAR, 2, bias, BIAS, BIAS, Read, Own, O)                                                                       \
    X(LINEAR, 3, output, OUTPUT, OUTPUT, Written, Tokens, BLO)                                                         \
    X(LINEAR, 4, residual, RESIDUAL, RESIDUAL, Read, OptionalTokens, BLO)                                              \
    X(LINEAR, 5, multiplier, MULTIPLIER, MULTIPLIER, Read, OptionalTokens, BLO)                                        \
    X(LINEAR, 6, norm_weight, NORM, NORM_WEIGHT, Read, Own, I)
VKATTN_BINDINGS(LINEAR_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define LINEAR_SIDE 8 /* of linear, linear_transposed, linear_dots: rows and outputs of invocations of a workgroup */
#define LINEAR_WORKGROUP_SIZE 64
#define LINEAR_VECTOR_ROWS 4       /* the most that one of them takes */
#define LINEAR_ADDRESSES_OUTPUTS 4 /* of an invocation of linear_addresses */
#define LINEAR_UNIFORM_OUTPUTS 32  /* of a workgroup of linear_uniform */

#define ACTIVATION_NONE 0u
#define ACTIVATION_RELU 1u
#define ACTIVATION_GELU 2u
#define ACTIVATION_SILU 3u
#define ACTIVATION_LEAKY_RELU 4u
#define ACTIVATION_GELU_TANH 5u
#define ACTIVATION_SIGMOID 6u
#define ACTIVATION_SOFTPLUS 7u

/* from WORKGROUP_SIZE on, which linear, linear_transposed and linear_dots have, too, of linear_coopmat: matrices of
 * MATRIX_M x MATRIX_K by MATRIX_K x MATRIX_N. ALIGNED: which of the factors have rows of whole eights without gaps between
 * elements, that begin at multiples of 16 bytes. ROWS: of an invocation of linear_addresses, a workgroup of
 * linear_uniform, of all linear_vector; BLOCKS, of linear_addresses and linear_uniform: of four features that an
 * invocation takes at a time, of linear_vector of eight, quantised of two eights. TILES and ROW_TILES, of linear_coopmat:
 * matrices of a subgroup along the outputs and along the rows, of linear, linear_transposed and linear_dots: outputs and
 * rows of an invocation, even, and at most twice as many outputs as rows, in whose room sums pass through; MATRIX_STEP, of
 * those but linear_dots: features in shared memory at a time; LOADS_AHEAD: 1 if the next ones are loaded before these are
 * multiplied; FEATURE_SUBGROUPS: that multiply a part each of a step's features, for the same outputs. Of linear_vector:
 * TILES, outputs of an invocation; OUTPUT_LANES, invocations that share them. Of linear_vector and linear_uniform:
 * NORM_FORMAT, the input's rows are normalised on their way (RMSNorm); NORM_EPSILON: the bits of a float. GATED: 1 if
 * the weight is two matrices, see LinearPush. TRANSPOSED, of linear_transposed and linear_transposed_coopmat: which
 * factors are, see LinearPush */
#define ALIGNED_INPUT 1u
#define ALIGNED_WEIGHT 2u
#define ALIGNED_STEPS 4u    /* of linear, linear_coopmat and linear_dots: whole steps of features, of all parts */
#define ALIGNED_NORM 8u     /* of linear_vector: the norm's weights, in eights too */
#define LINEAR_DOTS_STEP 32 /* of linear_dots */
#define TRANSPOSED_WEIGHT 1u
#define TRANSPOSED_INPUT 2u
#define TRANSPOSED_BATCHES 4u /* features are tokens of several batch entries, which do not lie behind each other */
#define LINEAR_CONSTANTS(X)                                                                                            \
    X(0, INPUT_FORMAT, 1)                                                                                              \
    X(1, WEIGHT_FORMAT, 1)                                                                                             \
    X(2, BIAS_FORMAT, 0)                                                                                               \
    X(3, OUTPUT_FORMAT, 1)                                                                                             \
    X(4, RESIDUAL_FORMAT, 0)                                                                                           \
    X(5, ACTIVATION, 0)                                                                                                \
    X(6, OUTPUT_PAIRS, 0)                                                                                              \
    X(7, WORKGROUP_SIZE, 64)                                                                                           \
    X(8, SUBGROUP_SIZE, 32)                                                                                            \
    X(9, ROW_SUBGROUPS, 1)                                                                                             \
    X(10, TILES, 1)                                                                                                    \
    X(11, MATRIX_M, 16)                                                                                                \
    X(12, MATRIX_N, 16)                                                                                                \
    X(13, MATRIX_K, 16)                                                                                                \
    X(14, ALIGNED, 0)                                                                                                  \
    X(15, MULTIPLIER_FORMAT, 0)                                                                                        \
    X(16, ROWS, 1)                                                                                                     \
    X(17, BLOCKS, 1)                                                                                                   \
    X(18, ROW_TILES, 1)                                                                                                \
    X(19, MATRIX_STEP, 32)                                                                                             \
    X(20, LOADS_AHEAD, 1)                                                                                              \
    X(21, NORM_FORMAT, 0)                                                                                              \
    X(22, NORM_EPSILON, 0)                                                                                             \
    X(23, GATED, 0)                                                                                                    \
    X(24, TRANSPOSED, 0)                                                                                               \
    X(25, FEATURE_SUBGROUPS, 1)                                                                                        \
    X(26, OUTPUT_LANES, 16)

/* Rows are (batch, position). Output feature o of a row lies at head o / head_dim, element o % head_dim. A group is an
 * independent product with a matrix of its own: the heads of a latent up-projection; plain linears have one.
 *
 * A gated product has two matrices, whose rows the kernels take by turns: output features 2 o and 2 o + 1 are the gate of feature o
 * of the output and what it gates. out_features counts both.
 *
 * A transposed factor lies with its outputs, or rows, beside each other, and one feature behind the other: its strides are those of
 * features, in batch entries (0) and in positions (1), of which an entry has as many as (2) says. ALIGNED then means that whole
 * eights of outputs, or rows, begin at multiples of 16 bytes. */
struct LinearPush {
    uint first_group[3];
    uint bases[4];
    uint rows;
    uint positions; /* rows of one batch entry */
    uint in_features;
    uint out_features;
    uint head_dim;
    uint input_strides[3];    /* batch, position, group */
    uint weight_strides[3];   /* output, input, group or matrix */
    uint bias_stride;         /* group or matrix */
    uint output_strides[5];   /* batch, position, head, element, group */
    uint residual_strides[2]; /* batch, position */
    uint multiplier_strides[2];
    uint input_address[2]; /* of kernels that read through addresses, low word first */
    uint weight_address[2];
};

#ifdef __cplusplus
VKATTN_INTERFACE(linear, Linear, LINEAR_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
