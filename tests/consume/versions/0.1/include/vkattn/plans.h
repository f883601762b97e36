/* Plans: a problem, checked, with its kernel chosen, to be recorded and run. */
#ifndef VKATTN_PLANS_H
#define VKATTN_PLANS_H

#include <vkattn/buffers.h>
#include <vkattn/trials.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A checked problem with its kernel chosen and its pipelines built. Immutable. */
typedef struct vkattn_plan_opaque *vkattn_plan;

/* What recording a plan needs from the caller.
 *
 * workspace_bytes     0: no VKATTN_ROLE_WORKSPACE needed. Exact: what the plan's own tensors take, nothing to spare
 * workspace_alignment what the workspace's bound offset must be a multiple of: 16 to 256, a power of two
 * descriptor_sets, storage_buffer_descriptors, uniform_buffer_descriptors   what one vkattn_record takes from
 *                     vkattn_record_info.descriptor_pool; all 0 on devices with push descriptors, which need no pool */
typedef struct vkattn_requirements {
    VKATTN_STRUCT_SIZE(vkattn_requirements);
    uint64_t workspace_bytes;
    uint64_t workspace_alignment;
    uint32_t descriptor_sets;
    uint32_t storage_buffer_descriptors;
    uint32_t uniform_buffer_descriptors;
} vkattn_requirements;

/* The choice that a plan made. The strings belong to the plan.
 *
 * kernel: AUTO for plans without attention
 * reason: one sentence that says why this kernel, and of each better one that the device can run why not
 *   (vkattn_explain tells of those that it cannot run, too); of linear, which shader and why. "" for other plans without
 *   attention */
typedef struct vkattn_report {
    VKATTN_STRUCT_SIZE(vkattn_report);
    vkattn_kernel kernel;
    const char *kernel_name;
    const char *reason;
    uint32_t dispatches; /* compute dispatches of one recording */
} vkattn_report;

/* What a plan would take that is not made.
 *
 * workspace_bytes, workspace_alignment  as vkattn_requirements has them
 * descriptor_sets, storage_buffer_descriptors, uniform_buffer_descriptors   the same, at most: modules need not read all that is bound
 * dispatches       of one recording
 * kernel           AUTO without attention */
typedef struct vkattn_measure {
    VKATTN_STRUCT_SIZE(vkattn_measure);
    vkattn_kernel kernel;
    uint64_t workspace_bytes;
    uint64_t workspace_alignment;
    uint32_t descriptor_sets;
    uint32_t storage_buffer_descriptors;
    uint32_t uniform_buffer_descriptors;
    uint32_t dispatches;
} vkattn_measure;

/* How to record a plan.
 *
 * bindings: one per role that the plan's description names, and VKATTN_ROLE_WORKSPACE if the plan needs one; any order.
 *   A missing, repeated or unexpected role is an error that names it
 * descriptor_pool: where the requirements ask for descriptor sets, a pool with room for them; the sets must not be
 *   freed before the command buffer has finished. Ignored otherwise */
typedef struct vkattn_record_info {
    VKATTN_STRUCT_SIZE(vkattn_record_info);
    VkCommandBuffer command_buffer;
    VkDescriptorPool descriptor_pool;
    const vkattn_binding *bindings;
    uint32_t binding_count;
} vkattn_record_info;

/* Fill in what recording needs, and the choice made. */
VKATTN_API vkattn_result vkattn_plan_requirements(vkattn_plan plan, vkattn_requirements *requirements);
VKATTN_API vkattn_result vkattn_plan_get_report(vkattn_plan plan, vkattn_report *report);

/* What a plan binds for a role.
 *
 * name             "query", "attn_mask", ...: as messages call it
 * bytes            that the region must hold; 0: it need not be bound
 * alignment        what the region's offset must be a multiple of
 * is_written       1: the plan writes it, and may read it; 0: it only reads it */
typedef struct vkattn_plan_binding {
    vkattn_role role;
    const char *name;
    uint64_t bytes;
    uint64_t alignment;
    uint32_t is_written;
} vkattn_plan_binding;

/* Lists what a plan binds, the workspace too, in the order of the roles' numbers: bindings, a list of vkattn_plan_binding. */
VKATTN_API vkattn_result vkattn_plan_bindings(vkattn_plan plan, vkattn_list *bindings);

/* Returns a role's name: "query", "attn_mask", ... "unknown" for other numbers. Never NULL. */
VKATTN_API const char *vkattn_role_name(vkattn_role role);

/* Records the plan's dispatches. Nothing is recorded on failure. Allocates no device memory, waits for nothing.
 *
 * Synchronisation: inputs must be visible to VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT / VK_ACCESS_SHADER_READ_BIT before;
 * outputs and the workspace are written there (VK_ACCESS_SHADER_WRITE_BIT): the caller places the barrier after.
 * Earlier reads of outputs, and earlier uses of the workspace, must have finished. Barriers between the plan's own
 * dispatches are recorded by vkattn. The command buffer must be recording, outside a render pass, on a compute queue
 * family. All of the plan's work is in the caller's submission, which systems end after some seconds: see
 * docs/performance.md, watchdogs. */
VKATTN_API vkattn_result vkattn_record(vkattn_plan plan, const vkattn_record_info *info);

/* Records the plan in a command buffer of its own, submits it on the context's queue and waits. Temporarily allocates
 * the workspace if no VKATTN_ROLE_WORKSPACE is bound. Work above VKATTN_TRAIT_MAX_DISPATCH_MEGAFLOPS takes several command
 * buffers and submissions, one after the other.
 * gpu_ms, if not NULL, receives the time between timestamps around the dispatches, or a negative value where the queue
 * has no timestamps. */
VKATTN_API vkattn_result vkattn_run(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                                    double *gpu_ms);

/* Records the plan in a command buffer of the context's own and submits it on the context's queue, without a wait; long
 * work in several, as vkattn_run does: the first waits for what sync says, the last signals.
 * bindings: as vkattn_run's; the workspace, where none is bound, is kept until the device is done. Submissions on a queue
 * start in order; each waits for the writes of compute shaders and transfers submitted there earlier, so that plans need
 * no semaphores between each other. sync: NULL, or what else to wait for, and what to signal.
 * The plan may be destroyed before the device is done; what is bound may not: a signalled semaphore or vkattn_wait says so. */
VKATTN_API vkattn_result vkattn_submit(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                                       const vkattn_sync *sync);

/* Destroys a plan, which keeps the layers, caches and variants that it uses until then. NULL is ignored. Command buffers of yours that
 * hold it must have finished. */
VKATTN_API void vkattn_plan_destroy(vkattn_plan plan);

#ifdef __cplusplus
}
#endif

#endif
