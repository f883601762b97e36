/* vkattn: attention for every Vulkan device.
 *
 * The life of a call:
 *
 *   vkattn_context   wraps a VkDevice (yours or its own)
 *   vkattn_plan      a described problem, checked; kernel chosen; pipelines built; workspace size known
 *   vkattn_record    writes the plan's dispatches into your VkCommandBuffer, with your buffers
 *   vkattn_run       (convenience) records, submits on the context's queue and waits
 *   vkattn_program   several plans with their buffers, recorded once and replayed for every token
 *
 * Every structure may be zero-initialised but for its struct_size: zero means "absent" or "default" in each member.
 * Everything that can fail on account of the problem fails in the plan, with a message that names the argument, what it
 * is and what was expected: see vkattn_last_error. No function aborts, throws or prints, but one of a library built without
 * NDEBUG that is used as the next paragraph forbids.
 *
 * Thread safety: the library has no shared mutable globals. A context may be used from many threads at once. A plan, a
 * program and a layer are immutable after creation and may be recorded or replayed from many threads at once. Externally
 * synchronised, by the caller: destroying an object, with every use of it; a cache, in every call that changes it
 * (vkattn_cache_reserve, rewind, copy_sequence, share_prefix, a run of a plan or of a program that appends), with every
 * other call on it; the contents of a buffer, as any memory; a VkCommandBuffer and its pool, as Vulkan demands. Objects
 * are destroyed in any order: each keeps what it needs of the others, but the buffers that are bound. A library built without
 * NDEBUG checks what is said here of objects and caches, and ends the program with a line on the standard error stream where it is
 * not so.
 *
 * What a program that was compiled against version 0.1 uses, later versions keep: results.h says how the interface grows.
 */
#ifndef VKATTN_VKATTN_H
#define VKATTN_VKATTN_H

/* In the order in which they are read. */
/* clang-format off */
#include <vkattn/results.h>
#include <vkattn/tensors.h>
#include <vkattn/devices.h>
#include <vkattn/context.h>
#include <vkattn/trials.h>
#include <vkattn/buffers.h>
#include <vkattn/plans.h>
#include <vkattn/attention.h>
#include <vkattn/operators.h>
#include <vkattn/recurrence.h>
#include <vkattn/gradients.h>
#include <vkattn/training.h>
#include <vkattn/layers.h>
#include <vkattn/programs.h>
#include <vkattn/shaders.h>
#include <vkattn/variants.h>
/* clang-format on */

#endif
