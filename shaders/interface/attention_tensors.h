/* The tensors of attention, a line each. Members, roles, bindings, features, checks, slices, names and what tuning fills
 * them with follow from it.
 *
 * X(binding, name, NAME, feature, Layout, type, Trial)
 *   name     member of vkattn_attention_desc; its role is VKATTN_ROLE_NAME
 *   feature  bit of features that says it is present; NO_FEATURE: another constant does, or it always is
 *   Layout   what its dimensions are: TensorLayout in runtime/problem/attention_tensors.hpp
 *   type     VKATTN_TYPE_*; NONE: one of several
 *   Trial    what tuning fills it with: TrialContents there */
#ifndef VKATTN_INTERFACE_ATTENTION_TENSORS_H
#define VKATTN_INTERFACE_ATTENTION_TENSORS_H

#include "common.h"

#define NO_FEATURE 64
#define CAPTURED_TENSORS 4u /* VKATTN_CAPTURED_TENSORS */

/* Their strides of batch, head and position (Blocks: block of queries) are in the uniform block, as NAME_strides. */
#define STRIDED_ATTENTION_TENSORS(X)                                                                                   \
    X(0, query, QUERY, NO_FEATURE, QueryRows, NONE, Numbers)                                                           \
    X(1, key, KEY, NO_FEATURE, KeyRows, NONE, Numbers)                                                                 \
    X(2, value, VALUE, NO_FEATURE, KeyRows, NONE, Numbers)                                                             \
    X(3, output, OUTPUT, NO_FEATURE, QueryRows, NONE, Results)                                                         \
    X(5, attn_mask, ATTN_MASK, NO_FEATURE, Mask, NONE, NothingHidden)                                                  \
    X(17, block_mask, BLOCK_MASK, 24, Blocks, I32, NothingHidden)                                                      \
    X(18, key_scales, KEY_SCALES, 41, Scales, F32, Ones)                                                               \
    X(19, value_scales, VALUE_SCALES, 42, Scales, F32, Ones)                                                           \
    X(24, key_indices, KEY_INDICES, 40, Lists, I32, BlocksInTurn)

/* In GLSL, modules of a variant alone know them. */
#if defined(__cplusplus) || defined(VARIANT_FUNCTIONS)
#define HAS_CAPTURED_TENSORS
#define CAPTURED_ATTENTION_TENSORS(X)                                                                                  \
    X(28, captured_0, CAPTURED_0, NO_FEATURE, Captured, NONE, Zeros)                                                   \
    X(29, captured_1, CAPTURED_1, NO_FEATURE, Captured, NONE, Zeros)                                                   \
    X(30, captured_2, CAPTURED_2, NO_FEATURE, Captured, NONE, Zeros)                                                   \
    X(31, captured_3, CAPTURED_3, NO_FEATURE, Captured, NONE, Zeros)
#else
#define CAPTURED_ATTENTION_TENSORS(X)
#endif

#define ATTENTION_TENSORS(X)                                                                                           \
    STRIDED_ATTENTION_TENSORS(X)                                                                                       \
    X(4, log_sum_exp, LOG_SUM_EXP, 8, Queries, F32, Zeros)                                                             \
    X(6, key_padding_mask, KEY_PADDING_MASK, 4, Keys, BOOL, Zeros)                                                     \
    X(7, key_lengths, KEY_LENGTHS, 2, Sequences, I32, AllKeys)                                                         \
    X(8, past_lengths, PAST_LENGTHS, 3, Sequences, I32, KeysBeforeQueries)                                             \
    X(9, alibi_slopes, ALIBI_SLOPES, 5, Heads, F32, Zeros)                                                             \
    X(10, sinks, SINKS, 7, Heads, F32, Zeros)                                                                          \
    X(12, attn_weights, ATTN_WEIGHTS, 9, Scores, F32, Zeros)                                                           \
    X(13, qk_matmul_output, QK_MATMUL_OUTPUT, 10, Scores, F32, Zeros)                                                  \
    X(14, cu_seqlens_q, CU_SEQLENS_Q, 17, Bounds, NONE, BoundsOfQueries)                                               \
    X(15, cu_seqlens_k, CU_SEQLENS_K, 18, Bounds, NONE, BoundsOfKeys)                                                  \
    X(16, block_table, BLOCK_TABLE, NO_FEATURE, Pages, NONE, PageNumbers)                                              \
    X(26, tree_mask, TREE_MASK, 43, Trees, I32, AllBits)                                                               \
    CAPTURED_ATTENTION_TENSORS(X)

#ifdef __cplusplus
namespace vkattn {
#endif

/* FEATURE_NAME is for the constant FEATURES, MORE_FEATURE_NAME for MORE_FEATURES; one of them is 0. */
#define VKATTN_FEATURE(NAME, feature)                                                                                  \
    VKATTN_NUMBER(FEATURE_##NAME, feature < 32 ? 1u << (feature & 31) : 0u)                                            \
    VKATTN_NUMBER(MORE_FEATURE_##NAME, feature >= 32 && feature < 64 ? 1u << (feature & 31) : 0u)
#define VKATTN_TENSOR_NUMBERS(binding, name, NAME, feature, Layout, type, Trial)                                       \
    VKATTN_NUMBER(BINDING_##NAME, binding)                                                                             \
    VKATTN_FEATURE(NAME, feature)

ATTENTION_TENSORS(VKATTN_TENSOR_NUMBERS)
VKATTN_NUMBER(BINDING_SCORES, 11) /* unfused: scores, then weights; flash: the state of rows between dispatches */
VKATTN_NUMBER(BINDING_INDEX_WEIGHTS, 25) /* index: of its heads; SCORES are its ranks */
VKATTN_NUMBER(ATTENTION_BINDINGS, 32)

#ifdef __cplusplus
} // namespace vkattn
#endif

#endif
