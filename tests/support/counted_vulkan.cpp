#include "counted_vulkan.hpp"

#include <string_view>

namespace vkattn_test {
namespace {

PFN_vkGetDeviceProcAddr next_device_function = nullptr;
PFN_vkAllocateMemory next_allocate = nullptr;
PFN_vkCreateCommandPool next_create_pool = nullptr;
PFN_vkDestroyCommandPool next_destroy_pool = nullptr;
PFN_vkResetCommandPool next_reset_pool = nullptr;
PFN_vkCreateBuffer next_create_buffer = nullptr;
PFN_vkDestroyBuffer next_destroy_buffer = nullptr;
PFN_vkCmdPipelineBarrier next_barrier = nullptr;
PFN_vkGetPipelineCacheData next_cache_data = nullptr;
PFN_vkCreateComputePipelines next_create_pipelines = nullptr;
PFN_vkDestroyPipeline next_destroy_pipeline = nullptr;
PFN_vkCreateShaderModule next_create_module = nullptr;
PFN_vkDestroyShaderModule next_destroy_module = nullptr;
PFN_vkBeginCommandBuffer next_begin = nullptr;
PFN_vkCmdDispatch next_dispatch = nullptr;
PFN_vkQueueSubmit next_submit = nullptr;
PFN_vkSetDebugUtilsObjectNameEXT next_set_name = nullptr;
PFN_vkCmdBeginDebugUtilsLabelEXT next_begin_label = nullptr;
PFN_vkCmdEndDebugUtilsLabelEXT next_end_label = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                        const VkAllocationCallbacks *host, VkDeviceMemory *memory) {
    ++vulkan_calls().allocations;
    return next_allocate(device, info, host, memory);
}

VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                           const VkAllocationCallbacks *host, VkCommandPool *pool) {
    ++vulkan_calls().command_pools;
    return next_create_pool(device, info, host, pool);
}

VKAPI_ATTR void VKAPI_CALL destroy_pool(VkDevice device, VkCommandPool pool, const VkAllocationCallbacks *host) {
    if (pool != VK_NULL_HANDLE) ++vulkan_calls().fewer_pools;
    next_destroy_pool(device, pool, host);
}

VKAPI_ATTR VkResult VKAPI_CALL reset_pool(VkDevice device, VkCommandPool pool, VkCommandPoolResetFlags flags) {
    if ((flags & VK_COMMAND_POOL_RESET_RELEASE_RESOURCES_BIT) != 0) ++vulkan_calls().released_pools;
    return next_reset_pool(device, pool, flags);
}

VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                             const VkAllocationCallbacks *host, VkBuffer *buffer) {
    ++vulkan_calls().buffers;
    return next_create_buffer(device, info, host, buffer);
}

VKAPI_ATTR void VKAPI_CALL destroy_buffer(VkDevice device, VkBuffer buffer, const VkAllocationCallbacks *host) {
    if (buffer != VK_NULL_HANDLE) ++vulkan_calls().fewer_buffers;
    next_destroy_buffer(device, buffer, host);
}

VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                   VkDependencyFlags flags, std::uint32_t count, const VkMemoryBarrier *memory,
                                   std::uint32_t buffer_count, const VkBufferMemoryBarrier *buffers,
                                   std::uint32_t image_count, const VkImageMemoryBarrier *images) {
    VulkanCalls::last_barrier_to = to;
    VulkanCalls::last_barrier_access = count > 0 ? memory->dstAccessMask : 0;
    next_barrier(commands, from, to, flags, count, memory, buffer_count, buffers, image_count, images);
}

VKAPI_ATTR VkResult VKAPI_CALL cache_data(VkDevice device, VkPipelineCache cache, std::size_t *bytes, void *data) {
    const bool padded = vulkan_calls().padded_caches > 0;
    if (padded) --vulkan_calls().padded_caches;
    std::size_t own = padded && data != nullptr ? *bytes - VulkanCalls::kCachePadding : *bytes;
    const VkResult result = next_cache_data(device, cache, &own, data);
    *bytes = padded ? own + VulkanCalls::kCachePadding : own;
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, std::uint32_t count,
                                                const VkComputePipelineCreateInfo *infos,
                                                const VkAllocationCallbacks *host, VkPipeline *pipelines) {
    vulkan_calls().pipelines += static_cast<int>(count);
    for (std::uint32_t i = 0; i < count; ++i)
        if ((infos[i].stage.flags & VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT) != 0)
            ++vulkan_calls().full_subgroups;
    return next_create_pipelines(device, cache, count, infos, host, pipelines);
}

VKAPI_ATTR void VKAPI_CALL destroy_pipeline(VkDevice device, VkPipeline pipeline, const VkAllocationCallbacks *host) {
    if (pipeline != VK_NULL_HANDLE) --vulkan_calls().pipelines;
    next_destroy_pipeline(device, pipeline, host);
}

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                             const VkAllocationCallbacks *host, VkShaderModule *module) {
    ++vulkan_calls().modules;
    return next_create_module(device, info, host, module);
}

VKAPI_ATTR void VKAPI_CALL destroy_module(VkDevice device, VkShaderModule module, const VkAllocationCallbacks *host) {
    if (module != VK_NULL_HANDLE) --vulkan_calls().modules;
    next_destroy_module(device, module, host);
}

VKAPI_ATTR VkResult VKAPI_CALL begin_commands(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info) {
    {
        const std::lock_guard lock(vulkan_calls().mutex);
        vulkan_calls().recorded[commands].clear();
    }
    return next_begin(commands, info);
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    {
        const std::lock_guard lock(vulkan_calls().mutex);
        vulkan_calls().recorded[commands].push_back(std::uint64_t{x} * y * z);
    }
    next_dispatch(commands, x, y, z);
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
    ++vulkan_calls().queue_submits;
    {
        const std::lock_guard lock(vulkan_calls().mutex);
        for (std::uint32_t i = 0; i < count; ++i)
            for (std::uint32_t c = 0; c < infos[i].commandBufferCount; ++c)
                vulkan_calls().submissions.push_back(vulkan_calls().recorded[infos[i].pCommandBuffers[c]]);
    }
    return next_submit(queue, count, infos, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL set_name(VkDevice device, const VkDebugUtilsObjectNameInfoEXT *info) {
    {
        const std::lock_guard lock(vulkan_calls().mutex);
        vulkan_calls().names.emplace_back(info->pObjectName);
    }
    return next_set_name(device, info);
}

VKAPI_ATTR void VKAPI_CALL begin_label(VkCommandBuffer commands, const VkDebugUtilsLabelEXT *label) {
    {
        const std::lock_guard lock(vulkan_calls().mutex);
        vulkan_calls().labels.emplace_back(label->pLabelName);
    }
    ++vulkan_calls().open_labels;
    next_begin_label(commands, label);
}

VKAPI_ATTR void VKAPI_CALL end_label(VkCommandBuffer commands) {
    --vulkan_calls().open_labels;
    next_end_label(commands);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name);

template <class Function>
PFN_vkVoidFunction counted(PFN_vkVoidFunction real, Function &next, Function own) {
    next = reinterpret_cast<Function>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(own);
}

PFN_vkVoidFunction counted(PFN_vkVoidFunction real, std::string_view name) {
    if (real == nullptr) return nullptr;
    if (name == "vkGetDeviceProcAddr") return counted(real, next_device_function, &device_function);
    if (name == "vkAllocateMemory") return counted(real, next_allocate, &allocate);
    if (name == "vkCreateCommandPool") return counted(real, next_create_pool, &create_pool);
    if (name == "vkDestroyCommandPool") return counted(real, next_destroy_pool, &destroy_pool);
    if (name == "vkResetCommandPool") return counted(real, next_reset_pool, &reset_pool);
    if (name == "vkCreateBuffer") return counted(real, next_create_buffer, &create_buffer);
    if (name == "vkDestroyBuffer") return counted(real, next_destroy_buffer, &destroy_buffer);
    if (name == "vkCmdPipelineBarrier") return counted(real, next_barrier, &barrier);
    if (name == "vkGetPipelineCacheData") return counted(real, next_cache_data, &cache_data);
    if (name == "vkCreateComputePipelines") return counted(real, next_create_pipelines, &create_pipelines);
    if (name == "vkDestroyPipeline") return counted(real, next_destroy_pipeline, &destroy_pipeline);
    if (name == "vkCreateShaderModule") return counted(real, next_create_module, &create_module);
    if (name == "vkDestroyShaderModule") return counted(real, next_destroy_module, &destroy_module);
    if (name == "vkBeginCommandBuffer") return counted(real, next_begin, &begin_commands);
    if (name == "vkCmdDispatch") return counted(real, next_dispatch, &dispatch);
    if (name == "vkQueueSubmit") return counted(real, next_submit, &submit);
    if (name == "vkSetDebugUtilsObjectNameEXT") return counted(real, next_set_name, &set_name);
    if (name == "vkCmdBeginDebugUtilsLabelEXT") return counted(real, next_begin_label, &begin_label);
    if (name == "vkCmdEndDebugUtilsLabelEXT") return counted(real, next_end_label, &end_label);
    return real;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name) {
    return counted(next_device_function(device, name), name);
}

} // namespace

void VulkanCalls::clear() {
    allocations = command_pools = fewer_pools = buffers = fewer_buffers = open_labels = full_subgroups = 0;
    released_pools = queue_submits = pipelines = modules = 0;
    names.clear();
    labels.clear();
    submissions.clear();
    recorded.clear();
}

VulkanCalls &vulkan_calls() {
    static VulkanCalls calls;
    return calls;
}

PFN_vkVoidFunction counted_instance_function(VkInstance instance, const char *name) {
    return counted(vkGetInstanceProcAddr(instance, name), name);
}

} // namespace vkattn_test
