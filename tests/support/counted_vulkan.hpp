// Vulkan as vkattn is handed it, with a count of some calls that it makes.
#pragma once

#include "application.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace vkattn_test {

struct VulkanCalls {
    std::atomic<int> allocations{0};    // vkAllocateMemory
    std::atomic<int> command_pools{0};  // vkCreateCommandPool
    std::atomic<int> fewer_pools{0};    // vkDestroyCommandPool
    std::atomic<int> released_pools{0}; // vkResetCommandPool with RELEASE_RESOURCES
    std::atomic<int> buffers{0};        // vkCreateBuffer
    std::atomic<int> fewer_buffers{0};  // vkDestroyBuffer, but of VK_NULL_HANDLE
    std::atomic<int> pipelines{0};      // vkCreateComputePipelines, less vkDestroyPipeline
    std::atomic<int> modules{0};        // vkCreateShaderModule, less vkDestroyShaderModule
    std::atomic<int> full_subgroups{0}; // vkCreateComputePipelines with REQUIRE_FULL_SUBGROUPS
    std::mutex mutex;
    std::vector<std::string> names;  // vkSetDebugUtilsObjectNameEXT
    std::vector<std::string> labels; // vkCmdBeginDebugUtilsLabelEXT
    std::atomic<int> open_labels{0}; // those that have not ended
    // vkCmdPipelineBarrier's global one, of the thread's last such call
    static inline thread_local VkPipelineStageFlags last_barrier_to = 0;
    static inline thread_local VkAccessFlags last_barrier_access = 0;
    std::atomic<int> padded_caches{0}; // so many calls of vkGetPipelineCacheData give kCachePadding bytes more
    static constexpr std::size_t kCachePadding = 64;
    std::atomic<int> queue_submits{0}; // vkQueueSubmit
    // vkQueueSubmit, each command buffer by itself: the workgroups of each vkCmdDispatch
    std::vector<std::vector<std::uint64_t>> submissions;
    std::map<VkCommandBuffer, std::vector<std::uint64_t>> recorded;

    void clear();
};

// Of all contexts that were given counted_instance_function.
VulkanCalls &vulkan_calls();

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL counted_instance_function(VkInstance instance, const char *name);

} // namespace vkattn_test
