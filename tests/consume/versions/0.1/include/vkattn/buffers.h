/* Buffers of the context's own, and waiting for what was submitted. */
#ifndef VKATTN_BUFFERS_H
#define VKATTN_BUFFERS_H

#include <vkattn/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A storage buffer of a context, with its memory. */
typedef struct vkattn_buffer_opaque *vkattn_buffer;

/* Creates a storage buffer in the best memory of the device (a convenience: any VkBuffer of yours serves as well).
 * Contents are undefined. bytes may be 0: the buffer then has room for nothing that is promised. */
VKATTN_API vkattn_result vkattn_buffer_create(vkattn_context context, uint64_t bytes, vkattn_buffer *buffer);

/* Destroys a buffer. NULL is ignored. The device must have finished with it. */
VKATTN_API void vkattn_buffer_destroy(vkattn_buffer buffer);

/* Returns the Vulkan handle, owned by the buffer. VK_NULL_HANDLE for NULL. */
VKATTN_API VkBuffer vkattn_buffer_handle(vkattn_buffer buffer);

/* Returns all of a buffer as a region, to bind. All zero for NULL. */
VKATTN_API vkattn_region vkattn_buffer_region(vkattn_buffer buffer);

/* Copies bytes from or to host memory and waits: first, on every device, for all that vkattn_wait waits for, so that a
 * read sees what was submitted before and a write does not change what that reads. Do not call them while something
 * submitted waits for a semaphore that the calling thread has yet to signal. What you recorded and submitted yourself
 * must be done before. What was written is visible to what is submitted on the context's queue later, by you too.
 * offset + bytes must lie within the buffer; bytes may be 0. */
VKATTN_API vkattn_result vkattn_buffer_write(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes);
VKATTN_API vkattn_result vkattn_buffer_read(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes);

/* A semaphore that a submission waits for or signals.
 *
 * value   of a timeline semaphore: what it must reach, or is set to; of a binary one ignored: 0 */
typedef struct vkattn_semaphore {
    VkSemaphore semaphore;
    uint64_t value;
} vkattn_semaphore;

/* What a submission waits for before it begins, and what it signals when it is done. Timeline semaphores need the device's
 * feature timelineSemaphore. */
typedef struct vkattn_sync {
    VKATTN_STRUCT_SIZE(vkattn_sync);
    const vkattn_semaphore *waits;
    uint32_t wait_count;
    const vkattn_semaphore *signals;
    uint32_t signal_count;
} vkattn_sync;

/* Copy as vkattn_buffer_write and vkattn_buffer_read do, but only submit, on the transfer queue where there is one.
 *
 * upload    data is read before the call returns
 * download  data is written by some call of this context until vkattn_wait returns: leave it alone until then
 * sync      NULL: nothing to wait for or signal. Nothing else orders these copies against other submissions. What a
 *           semaphore orders is also visible; a wait covers transfers and compute shaders */
VKATTN_API vkattn_result vkattn_buffer_upload(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes,
                                              const vkattn_sync *sync);
VKATTN_API vkattn_result vkattn_buffer_download(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes,
                                                const vkattn_sync *sync);

/* Waits until all is done that vkattn_submit, vkattn_program_submit, vkattn_buffer_upload and vkattn_buffer_download have
 * submitted in this context before, by any thread. Does not use the queues. Other calls that wait do so without a limit.
 *
 * timeout_ns  nanoseconds: fails with VKATTN_ERROR_TIMEOUT where it is not done by then, and may be called again; UINT64_MAX: no limit
 * Once a call has failed with VKATTN_ERROR_DEVICE_LOST, this one and all that submit work fail with it at once, and what was not
 * downloaded by then never is: destroy what the context has. A device that cannot be waited for, although it does not say that it
 * is lost, is taken for lost; what it may still work on is then never destroyed. */
VKATTN_API vkattn_result vkattn_wait(vkattn_context context, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
