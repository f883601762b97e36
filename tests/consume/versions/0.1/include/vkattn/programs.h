/* Recorded programs: plans that are recorded once as one, and replayed. A token of a model is then one submission. */
#ifndef VKATTN_PROGRAMS_H
#define VKATTN_PROGRAMS_H

#include <vkattn/plans.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Plans with their buffers, recorded. */
typedef struct vkattn_program_opaque *vkattn_program;

/* A plan of a program, and what it reads and writes there.
 *
 * plan      of the program's context; the same plan may be there several times
 * bindings  as vkattn_run's, but without VKATTN_ROLE_WORKSPACE: the program has one workspace for all its plans */
typedef struct vkattn_bound_plan {
    vkattn_plan plan;
    const vkattn_binding *bindings;
    uint32_t binding_count;
} vkattn_bound_plan;

/* plans: at least one, in the order in which they are computed */
typedef struct vkattn_program_info {
    VKATTN_STRUCT_SIZE(vkattn_program_info);
    const vkattn_bound_plan *plans;
    uint32_t plan_count;
} vkattn_program_info;

/* What a program is made of.
 *
 * workspace_bytes  of device memory, that the program has for as long as it lives
 * plans            how many
 * dispatches       compute dispatches of one replay
 * barriers         between them: those that read or write what no dispatch since the last barrier has written, and write
 *                  what none has read, may run side by side
 * submissions      of one replay: 1, or more where VKATTN_TRAIT_MAX_DISPATCH_MEGAFLOPS divides the work */
typedef struct vkattn_program_report {
    VKATTN_STRUCT_SIZE(vkattn_program_report);
    uint64_t workspace_bytes;
    uint32_t plans;
    uint32_t dispatches;
    uint32_t barriers;
    uint32_t submissions;
} vkattn_program_report;

/* Records plans as a program. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the plan by its place and the binding.
 *
 * Every replay computes the same plans on the same buffers, with what is then in them. What changes from one token to
 * the next therefore has to be in buffers: tokens, lengths (VKATTN_ROLE_PAST_LENGTHS, VKATTN_ROLE_KEY_LENGTHS), block
 * tables; the length of a vkattn_cache is in one. Members of descriptions, such as past_len, stay what they were.
 * A replay of plans that append to a vkattn_cache counts their tokens on the host, as vkattn_run does, of all plans
 * before anything is computed; packed tokens (cu_seqlens) are counted by the caller before each replay.
 *
 * Ownership: the program keeps its plans, and by them layers, caches and variants, which may be destroyed once it is made. Buffers
 * that are bound must live as long as the program, and as its replays. Two buffers that are bound must not share memory: what
 * has to wait for what is found by buffers and ranges. */
VKATTN_API vkattn_result vkattn_program_create(vkattn_context context, const vkattn_program_info *info,
                                               vkattn_program *program);

/* Fills in what a program is made of. */
VKATTN_API vkattn_result vkattn_program_get_report(vkattn_program program, vkattn_program_report *report);

/* Replays the program on the context's queue and waits. gpu_ms: as vkattn_run's. */
VKATTN_API vkattn_result vkattn_program_run(vkattn_program program, double *gpu_ms);

/* Replays it without a wait, between what sync says, as vkattn_submit does. Replays run one after the other; any number
 * may be under way. Threads may replay a program at once, but for one that appends to a cache: see vkattn.h. */
VKATTN_API vkattn_result vkattn_program_submit(vkattn_program program, const vkattn_sync *sync);

/* Destroys a program. NULL is ignored. Replays that are under way go on to their end: what the device needs of the
 * program goes with the last. */
VKATTN_API void vkattn_program_destroy(vkattn_program program);

#ifdef __cplusplus
}
#endif

#endif
