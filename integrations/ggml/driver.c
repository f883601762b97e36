/* Between ggml and the Vulkan loader, by LD_PRELOAD, for tests and measurements.
 *
 * A query of a fence waits two milliseconds: ggml asks without a pause, which on a CPU driver takes a core from the shaders.
 * TEST_LOSE_DEVICE=N: the device is lost at the N-th submission, from 1, as after a reset by the system.
 * TEST_HIDE_EXTENSION=NAME: devices do not have the extension. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static PFN_vkVoidFunction device_function(VkDevice device, const char *name) {
    static PFN_vkGetDeviceProcAddr real; /* the loader, asked for its own, would find the one below */
    if (!real) real = (PFN_vkGetDeviceProcAddr)dlsym(RTLD_NEXT, "vkGetDeviceProcAddr");
    return real(device, name);
}

static atomic_int submissions;
static atomic_int is_lost;

static VkResult get_fence_status(VkDevice device, VkFence fence) {
    if (is_lost) return VK_ERROR_DEVICE_LOST;
    PFN_vkWaitForFences wait = (PFN_vkWaitForFences)device_function(device, "vkWaitForFences");
    const VkResult result = wait(device, 1, &fence, VK_TRUE, 2000000);
    return result == VK_TIMEOUT ? VK_NOT_READY : result;
}

static VkResult wait_for_fences(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all,
                                uint64_t timeout) {
    if (is_lost) return VK_ERROR_DEVICE_LOST;
    return ((PFN_vkWaitForFences)device_function(device, "vkWaitForFences"))(device, count, fences, all, timeout);
}

static PFN_vkQueueSubmit real_submit;
static VkResult queue_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
    const char *last = getenv("TEST_LOSE_DEVICE");
    if (last && atomic_fetch_add(&submissions, 1) + 1 >= atoi(last)) is_lost = 1;
    return is_lost ? VK_ERROR_DEVICE_LOST : real_submit(queue, count, submits, fence);
}

static PFN_vkEnumerateDeviceExtensionProperties real_extensions;
static VkResult extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
                           VkExtensionProperties *properties) {
    const VkResult result = real_extensions(device, layer, count, properties);
    const char *hidden = getenv("TEST_HIDE_EXTENSION");
    for (uint32_t i = 0; hidden && properties && i < *count; i++) {
        if (!strcmp(properties[i].extensionName, hidden)) properties[i] = properties[--*count];
    }
    return result;
}

static PFN_vkVoidFunction replaced(PFN_vkVoidFunction real, const char *name) {
    if (!real) return real;
    if (!strcmp(name, "vkGetFenceStatus")) return (PFN_vkVoidFunction)get_fence_status;
    if (!strcmp(name, "vkWaitForFences")) return (PFN_vkVoidFunction)wait_for_fences;
    if (!strcmp(name, "vkQueueSubmit")) {
        real_submit = (PFN_vkQueueSubmit)real;
        return (PFN_vkVoidFunction)queue_submit;
    }
    if (!strcmp(name, "vkEnumerateDeviceExtensionProperties")) {
        real_extensions = (PFN_vkEnumerateDeviceExtensionProperties)real;
        return (PFN_vkVoidFunction)extensions;
    }
    return strcmp(name, "vkGetDeviceProcAddr") ? real : (PFN_vkVoidFunction)vkGetDeviceProcAddr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice device, const char *name) {
    return replaced(device_function(device, name), name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name) {
    static PFN_vkGetInstanceProcAddr real;
    if (!real) real = (PFN_vkGetInstanceProcAddr)dlsym(RTLD_NEXT, "vkGetInstanceProcAddr");
    return replaced(real(instance, name), name);
}
