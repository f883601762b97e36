#pragma once

#include "runtime/vulkan/vulkan_extensions.hpp"
#include "vkattn/vkattn.h"

#include <memory>

namespace vkattn {

// Vulkan's functions, one table per context: no globals, so that two contexts on two devices, or beside an
// application's own loader, never meet. Filled through vkGetInstanceProcAddr alone.

#define VKATTN_GLOBAL_FUNCTIONS(X)                                                                                     \
    X(vkCreateInstance)                                                                                                \
    X(vkEnumerateInstanceExtensionProperties)                                                                          \
    X(vkEnumerateInstanceLayerProperties)

#define VKATTN_INSTANCE_FUNCTIONS(X)                                                                                   \
    X(vkDestroyInstance)                                                                                               \
    X(vkEnumeratePhysicalDevices)                                                                                      \
    X(vkEnumerateDeviceExtensionProperties)                                                                            \
    X(vkGetPhysicalDeviceProperties)                                                                                   \
    X(vkGetPhysicalDeviceProperties2)                                                                                  \
    X(vkGetPhysicalDeviceFeatures2)                                                                                    \
    X(vkGetPhysicalDeviceMemoryProperties)                                                                             \
    X(vkGetPhysicalDeviceMemoryProperties2)                                                                            \
    X(vkGetPhysicalDeviceQueueFamilyProperties)                                                                        \
    X(vkCreateDevice)                                                                                                  \
    X(vkGetDeviceProcAddr)

#define VKATTN_DEVICE_FUNCTIONS(X)                                                                                     \
    X(vkDestroyDevice)                                                                                                 \
    X(vkGetDeviceQueue)                                                                                                \
    X(vkQueueSubmit)                                                                                                   \
    X(vkCreateFence)                                                                                                   \
    X(vkDestroyFence)                                                                                                  \
    X(vkWaitForFences)                                                                                                 \
    X(vkGetFenceStatus)                                                                                                \
    X(vkResetFences)                                                                                                   \
    X(vkCreateCommandPool)                                                                                             \
    X(vkDestroyCommandPool)                                                                                            \
    X(vkResetCommandPool)                                                                                              \
    X(vkAllocateCommandBuffers)                                                                                        \
    X(vkBeginCommandBuffer)                                                                                            \
    X(vkEndCommandBuffer)                                                                                              \
    X(vkCreateBuffer)                                                                                                  \
    X(vkDestroyBuffer)                                                                                                 \
    X(vkGetBufferMemoryRequirements)                                                                                   \
    X(vkAllocateMemory)                                                                                                \
    X(vkFreeMemory)                                                                                                    \
    X(vkBindBufferMemory)                                                                                              \
    X(vkMapMemory)                                                                                                     \
    X(vkCreateShaderModule)                                                                                            \
    X(vkDestroyShaderModule)                                                                                           \
    X(vkCreateDescriptorSetLayout)                                                                                     \
    X(vkDestroyDescriptorSetLayout)                                                                                    \
    X(vkCreatePipelineLayout)                                                                                          \
    X(vkDestroyPipelineLayout)                                                                                         \
    X(vkCreatePipelineCache)                                                                                           \
    X(vkDestroyPipelineCache)                                                                                          \
    X(vkGetPipelineCacheData)                                                                                          \
    X(vkCreateComputePipelines)                                                                                        \
    X(vkDestroyPipeline)                                                                                               \
    X(vkCreateDescriptorPool)                                                                                          \
    X(vkDestroyDescriptorPool)                                                                                         \
    X(vkAllocateDescriptorSets)                                                                                        \
    X(vkUpdateDescriptorSets)                                                                                          \
    X(vkCreateQueryPool)                                                                                               \
    X(vkDestroyQueryPool)                                                                                              \
    X(vkGetQueryPoolResults)                                                                                           \
    X(vkCmdResetQueryPool)                                                                                             \
    X(vkCmdWriteTimestamp)                                                                                             \
    X(vkCmdBindPipeline)                                                                                               \
    X(vkCmdBindDescriptorSets)                                                                                         \
    X(vkCmdPushConstants)                                                                                              \
    X(vkCmdDispatch)                                                                                                   \
    X(vkCmdPipelineBarrier)                                                                                            \
    X(vkCmdCopyBuffer)                                                                                                 \
    X(vkCmdFillBuffer)

// Absent where the extension or the version is.
#define VKATTN_MATRIX_FUNCTIONS(X)                                                                                     \
    X(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)                                                               \
    X(vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV)

#define VKATTN_DEBUG_FUNCTIONS(X)                                                                                      \
    X(vkSetDebugUtilsObjectNameEXT)                                                                                    \
    X(vkCmdBeginDebugUtilsLabelEXT)                                                                                    \
    X(vkCmdEndDebugUtilsLabelEXT)                                                                                      \
    X(vkCreateDebugUtilsMessengerEXT)                                                                                  \
    X(vkDestroyDebugUtilsMessengerEXT)

#define VKATTN_OPTIONAL_DEVICE_FUNCTIONS(X)                                                                            \
    X(vkCmdPushDescriptorSetKHR)                                                                                       \
    X(vkGetBufferDeviceAddress)                                                                                        \
    X(vkGetPipelineExecutablePropertiesKHR)                                                                            \
    X(vkGetPipelineExecutableStatisticsKHR)                                                                            \
    X(vkGetPipelineExecutableInternalRepresentationsKHR)

struct Functions {
#define VKATTN_MEMBER(name) PFN_##name name = nullptr;
    VKATTN_GLOBAL_FUNCTIONS(VKATTN_MEMBER)
    VKATTN_INSTANCE_FUNCTIONS(VKATTN_MEMBER)
    VKATTN_DEVICE_FUNCTIONS(VKATTN_MEMBER)
    VKATTN_DEBUG_FUNCTIONS(VKATTN_MEMBER)
    VKATTN_MATRIX_FUNCTIONS(VKATTN_MEMBER)
    VKATTN_OPTIONAL_DEVICE_FUNCTIONS(VKATTN_MEMBER)
#undef VKATTN_MEMBER
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
    PFN_vkEnumerateInstanceVersion vkEnumerateInstanceVersion = nullptr; // absent of Vulkan 1.0
    std::shared_ptr<void> loader; // keeps the system's loader open where we opened it
};

// Starts a table. get_instance_proc_addr null: opens the system's Vulkan loader, or fails with VKATTN_ERROR_NO_VULKAN.
Functions load_global_functions(PFN_vkGetInstanceProcAddr get_instance_proc_addr);

// Fills the rest. A required function that is missing fails with VKATTN_ERROR_NO_VULKAN and is named.
void load_instance_functions(Functions &vk, VkInstance instance);
void load_device_functions(Functions &vk, VkDevice device);

} // namespace vkattn
