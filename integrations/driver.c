/* Between an engine and the Vulkan loader, for tests and measurements: by LD_PRELOAD where the engine is linked with the loader; where it
 * opens it, as a file libvulkan.so.1 in LD_LIBRARY_PATH, and TEST_VULKAN_LOADER is the loader's own file.
 *
 * A query of a fence waits two milliseconds: ggml asks without a pause, which on a CPU driver takes a core from the shaders.
 * TEST_LOSE_DEVICE=N: the device is lost at the N-th submission, from 1, as after a reset by the system; N,later: that submission is taken,
 * and what waits for it is told. A device that is created afterwards is a new one.
 * TEST_HIDE_EXTENSION=NAME: devices do not have the extension. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

static void *function_of_loader(const char *name) {
    void *found = dlsym(RTLD_NEXT, name); /* the loader, asked for its own, would find those below */
    if (found) return found;
    const char *file = getenv("TEST_VULKAN_LOADER");
    void *loader = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (loader) return dlsym(loader, name);
    fprintf(stderr, "integrations/driver.c: TEST_VULKAN_LOADER is %s, expected the file of the Vulkan loader\n",
            file ? file : "not set");
    abort();
}

static PFN_vkVoidFunction device_function(VkDevice device, const char *name) {
    static PFN_vkGetDeviceProcAddr real;
    if (!real) real = (PFN_vkGetDeviceProcAddr)function_of_loader("vkGetDeviceProcAddr");
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
static PFN_vkQueueWaitIdle real_wait_idle;
static VkResult queue_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
    const char *last = getenv("TEST_LOSE_DEVICE");
    const int loses = last && atomic_fetch_add(&submissions, 1) + 1 == atoi(last);
    if (is_lost) return VK_ERROR_DEVICE_LOST;
    const int taken = !loses || strstr(last, ",later");
    const VkResult result = taken ? real_submit(queue, count, submits, fence) : VK_ERROR_DEVICE_LOST;
    if (loses) {
        real_wait_idle(queue); /* a lost device works on nothing */
        is_lost = 1;
    }
    return result;
}

static PFN_vkCreateDevice real_create_device;
static VkResult create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                              const VkAllocationCallbacks *allocator, VkDevice *device) {
    const VkResult result = real_create_device(physical, info, allocator, device);
    if (result != VK_SUCCESS) return result;
    real_wait_idle = (PFN_vkQueueWaitIdle)device_function(*device, "vkQueueWaitIdle");
    is_lost = 0;
    return result;
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
    if (!strcmp(name, "vkCreateDevice")) {
        real_create_device = (PFN_vkCreateDevice)real;
        return (PFN_vkVoidFunction)create_device;
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
    if (!real) real = (PFN_vkGetInstanceProcAddr)function_of_loader("vkGetInstanceProcAddr");
    return replaced(real(instance, name), name);
}
