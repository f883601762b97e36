/* Linear attention, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_LINEAR_ATTENTION_H
#define VKATTN_INTERFACE_LINEAR_ATTENTION_H

#include "common.h"
#include "recurrent_states.h"

/* Of the workspace: factors of each chunk and value head, see operators/linear_attention/factors.glsl; carries, [Hv,Dk,Dv]: the state of the
 * sequence that two stretches share. */
#define LINEAR_ATTENTION_OWN_TENSORS(X)                                                                                \
    X(LINEAR_ATTENTION, 0, query, QUERY, QUERY, Read, Rows, BKLD)                                                      \
    X(LINEAR_ATTENTION, 1, key, KEY, KEY, Read, Rows, BKLD)                                                            \
    X(LINEAR_ATTENTION, 2, value, VALUE, VALUE, Read, Rows, BHLV)                                                      \
    X(LINEAR_ATTENTION, 3, decay, DECAY, DECAY, Read, Own, BHLD)                                                       \
    X(LINEAR_ATTENTION, 4, beta, BETA, BETA, Read, Own, BHL)                                                           \
    X(LINEAR_ATTENTION, 5, output, OUTPUT, OUTPUT, Written, Rows, BHLV)                                                \
    X(LINEAR_ATTENTION, 12, factors, FACTORS, WORKSPACE, Written, Own, ANY)                                            \
    X(LINEAR_ATTENTION, 13, carry_from, CARRY_FROM, WORKSPACE, Read, Own, ANY)                                         \
    X(LINEAR_ATTENTION, 14, carry_to, CARRY_TO, WORKSPACE, Written, Own, ANY)
#define LINEAR_ATTENTION_TENSORS(X) LINEAR_ATTENTION_OWN_TENSORS(X) RECURRENT_TENSORS(X, LINEAR_ATTENTION, 6)
VKATTN_BINDINGS(LINEAR_ATTENTION_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define LINEAR_ATTENTION_BINDINGS 16 /* the uniform block's number */

#define LINEAR_ATTENTION_MOST_DRAFTS 16    /* tokens of a sequence whose states are kept */
#define LINEAR_ATTENTION_MOST_HEAD_DIM 512 /* Dk: a column of the state lies in the registers of a workgroup */
#define LINEAR_ATTENTION_CHUNK 32          /* tokens */

/* DECAY */
#define DECAY_NONE 0
#define DECAY_OF_HEAD 1
#define DECAY_OF_CHANNEL 2

/* Invocations: WORKGROUP_SIZE of the recurrent kernel: COLUMN_VECTORS times row groups, each ROWS rows of the state; of the pass over chunks:
 * COLUMN_VECTORS * LINEAR_ATTENTION_CHUNK / 2 times parts of the head size. COLUMN_VECTORS: fours of the state's columns that a workgroup has.
 * STAGED_TOKENS: of the recurrent kernel, that are loaded at a time. SUBGROUP_SIZE: of the kernel of CPU drivers. STATE_VECTORS: rows of states begin at sixteen bytes. PAIRS of a tensor:
 * neighbours of 16 bits share words. */
#define LINEAR_ATTENTION_CONSTANTS(X)                                                                                  \
    X(0, WORKGROUP_SIZE, 64)                                                                                           \
    X(1, QUERY_FORMAT, 1)                                                                                              \
    X(2, KEY_FORMAT, 1)                                                                                                \
    X(3, VALUE_FORMAT, 1)                                                                                              \
    X(4, OUTPUT_FORMAT, 1)                                                                                             \
    X(5, HEAD_DIM, 128)                                                                                                \
    X(6, V_HEAD_DIM, 128)                                                                                              \
    X(7, DECAY, 0)                                                                                                     \
    X(8, IS_DELTA, 0)                                                                                                  \
    X(9, HAS_BETA, 0)                                                                                                  \
    X(10, L2_NORM, 0)                                                                                                  \
    X(11, HAS_INITIAL, 0)                                                                                              \
    X(12, HAS_FINAL, 0)                                                                                                \
    X(13, HAS_CU_SEQLENS, 0)                                                                                           \
    X(14, HAS_SLOTS, 0)                                                                                                \
    X(15, KEEPS_TOKEN_STATES, 0)                                                                                       \
    X(16, HAS_ACCEPTED, 0)                                                                                             \
    X(17, STATE_VECTORS, 0)                                                                                            \
    X(18, QUERY_PAIRS, 0)                                                                                              \
    X(19, KEY_PAIRS, 0)                                                                                                \
    X(20, VALUE_PAIRS, 0)                                                                                              \
    X(21, OUTPUT_PAIRS, 0)                                                                                             \
    X(22, COLUMN_VECTORS, 8)                                                                                           \
    X(23, ROWS, 16)                                                                                                    \
    X(24, STAGED_TOKENS, 1)                                                                                            \
    X(25, SUBGROUP_SIZE, 8)

struct LinearAttentionParameters {
    uvec4 query_strides; /* batch, head, position, element */
    uvec4 key_strides;
    uvec4 value_strides;
    uvec4 decay_strides;
    uvec4 beta_strides;
    uvec4 output_strides;
    uint sequences;
    uint len;     /* of a sequence that is not packed */
    uint total;   /* packed rows */
    uint longest; /* sequence: packed ones are cut there */
    uint states;  /* of initial_state and final_state */
    uint drafts;  /* tokens of a sequence in token_states */
    float scale;
    float epsilon; /* of norms */
};

/* Stretches of chunks, one after the other: see operators/linear_attention/chunks.glsl. What the state's loads need is here: they need not wait
 * for the uniform block. */
struct LinearAttentionPush {
    uint first_group[3];
    uint bases[LINEAR_ATTENTION_BINDINGS / 4];
    uint group; /* value heads of a key head */
    uint heads; /* value heads */
    uint first_chunk;
    uint end_chunk;
};

#ifdef __cplusplus
VKATTN_INTERFACE(linear_attention, LinearAttention, LINEAR_ATTENTION_CONSTANTS)
static_assert(sizeof(LinearAttentionParameters) <= 512);
} // namespace vkattn::gpu
#endif

#endif
