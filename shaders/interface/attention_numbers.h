/* The flags and numbers of attention, a line each. Members of the problem, checks, features, uniforms, and what layers and choices
 * of keys hand on, follow from it.
 *
 * Flags: X(name, NAME, feature)
 *   name     member of AttentionProblem
 *   NAME     VKATTN_MASK_NAME of mask_flags
 *
 * Numbers: X(name, NAME, feature, Range, place)
 *   name     member of vkattn_attention_desc and of AttentionProblem, of the same type
 *   feature  bit of features that says it is above 0; NO_FEATURE: something else does
 *   Range    what may be given: the constants kRange in runtime/problem/attention_problem.cpp; Own: the problem takes it otherwise
 *   place    UINT: a uint of the uniform block, of the same name, behind the others; OWN: the block has it otherwise or not at all */
#ifndef VKATTN_INTERFACE_ATTENTION_NUMBERS_H
#define VKATTN_INTERFACE_ATTENTION_NUMBERS_H

#include "attention_tensors.h"

#define ATTENTION_FLAGS(X)                                                                                             \
    X(causal, CAUSAL, 0)                                                                                               \
    X(windowed, WINDOW, 1)                                                                                             \
    X(keys_to_last_query, KEYS_TO_LAST_QUERY, 16)                                                                      \
    X(mask_times_slopes, TIMES_SLOPES, 45) /* in place of FEATURE_ALIBI_SLOPES */

#define ATTENTION_NUMBERS(X)                                                                                           \
    X(softcap, SOFTCAP, 6, FromZero, OWN)                                                                              \
    X(dropout_p, DROPOUT, 20, Probability, OWN)                                                                        \
    X(window_left, WINDOW_LEFT, NO_FEATURE, Own, OWN)                                                                  \
    X(window_right, WINDOW_RIGHT, NO_FEATURE, Own, OWN)                                                                \
    X(block_q_len, BLOCK_Q_LEN, NO_FEATURE, Own, OWN)                                                                  \
    X(block_kv_len, BLOCK_KV_LEN, NO_FEATURE, Own, OWN)

#ifdef __cplusplus
namespace vkattn {
#endif

#define VKATTN_FLAG_FEATURE(name, NAME, feature) VKATTN_FEATURE(NAME, feature)
#define VKATTN_NUMBER_FEATURE(name, NAME, feature, Range, place) VKATTN_FEATURE(NAME, feature)

ATTENTION_FLAGS(VKATTN_FLAG_FEATURE)
ATTENTION_NUMBERS(VKATTN_NUMBER_FEATURE)

#ifdef __cplusplus
} // namespace vkattn
#endif

#define VKATTN_UNIFORM_OWN(name)
#define VKATTN_UNIFORM_UINT(name) uint name;
#define VKATTN_UNIFORM(name, NAME, feature, Range, place) VKATTN_UNIFORM_##place(name)

#endif
