/* What a context tries on its device: whether kernels give right numbers, and which are the fastest. */
#ifndef VKATTN_TRIALS_H
#define VKATTN_TRIALS_H

#include <vkattn/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One check of the self-test.
 *
 * name          a shader and a path of its code: "decode_subgroups, q8_0"
 * reason        "" if passed
 * check_count   of the whole self-test, as far as is known: more follow where one fails */
typedef struct vkattn_check {
    const char *name;
    uint32_t passed;
    const char *reason;
    double milliseconds;
    uint32_t check_count;
} vkattn_check;

/* Receives a check once it is done, in the thread of the self-test, which waits; what it is shown stays until it returns. It must not
 * call the context, nor throw. */
typedef void (*vkattn_check_callback)(void *user, const vkattn_check *check);

/* Checks the numbers of the shaders that plans take here (attention, copies into caches, linear layers), each path of
 * their code and every matrix shape by itself, on small problems, against float64 arithmetic on the host, on the context's
 * queue, and waits. What fails is off for the context from then on: its facts give the reason, and another shader, matrix
 * shape or kernel takes over. On GPUs each shader is checked before a plan first takes it, which takes the queue then; trait
 * VKATTN_TRAIT_SELF_TEST of 0 says not to. Where memory runs out, the call fails, and nothing is off for it. Where the device
 * is lost, the call fails; what lost it is off for contexts that start from what this one saves.
 * callback: NULL, or what is called with each check. checks: NULL, or where a list of vkattn_check is given. */
VKATTN_API vkattn_result vkattn_self_test(vkattn_context context, vkattn_check_callback callback, void *user,
                                          vkattn_list *checks);

/* One way of computing a problem, as vkattn_tune and its like tried it.
 *
 * kernel        VKATTN_KERNEL_AUTO of gradients and linear layers, whose tile names the shader
 * tile          "16x16x16 matrices, 4 x 1 subgroups, 64 keys, 2 parts"
 * milliseconds  of one run, a median; 0 where reason is given
 * kept          1: what plans of such problems take from now on
 * reason        why it cannot be used; "" if it can */
typedef struct vkattn_candidate {
    vkattn_kernel kernel;
    const char *tile;
    double milliseconds;
    uint32_t kept;
    const char *reason;
} vkattn_candidate;

/* What has become of a context's tune_budget_ms.
 *
 * budget_ms   of the context: tune_budget_ms, or 0 where nothing is measured
 * spent_ms    so far; may exceed budget_ms by what one candidate took
 * classes     that were measured and are kept
 * candidates  that were timed for them
 * left_out    classes whose share of the budget allowed no candidate beside what the plan takes untuned */
typedef struct vkattn_tune_budget_report {
    VKATTN_STRUCT_SIZE(vkattn_tune_budget_report);
    double budget_ms;
    double spent_ms;
    uint32_t classes;
    uint32_t candidates;
    uint32_t left_out;
} vkattn_tune_budget_report;

/* Fills in what the budget has gone into so far, by any thread. */
VKATTN_API vkattn_result vkattn_context_tune_budget(vkattn_context context, vkattn_tune_budget_report *report);

#ifdef __cplusplus
}
#endif

#endif
