#pragma once

#include "runtime/device/device_features.hpp"
#include "runtime/vulkan/functions.hpp"

#include <span>
#include <string>
#include <vector>

namespace vkattn {

bool has_extension(std::span<const std::string> extensions, const char *name);

// What the device has. extensions: those that count as available; api_version: the version in use.
DeviceFeatures read_device_features(const Functions &vk, VkPhysicalDevice physical_device, uint32_t api_version,
                                    std::span<const std::string> extensions);

// What the chain that an application gave to vkCreateDevice enabled; NULL: nothing.
DeviceFeatures enabled_device_features(const VkPhysicalDeviceFeatures2 *chain);

// The structures that enable features, for VkDeviceCreateInfo::pNext; only those that `features` has something of.
class FeatureChain {
  public:
    explicit FeatureChain(const DeviceFeatures &features);
    FeatureChain(const FeatureChain &) = delete;
    FeatureChain &operator=(const FeatureChain &) = delete;
    const void *head() const { return head_; }

  private:
    template <class Structure>
    void link(Structure &structure, bool wanted) {
        if (!wanted) return;
        structure.pNext = head_;
        head_ = &structure;
    }

    void *head_ = nullptr;
    VkPhysicalDeviceBufferDeviceAddressFeatures address_{};
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model_{};
    VkPhysicalDevice16BitStorageFeatures storage16_{};
    VkPhysicalDeviceShaderFloat16Int8Features float16_{};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot_product_{};
    VkPhysicalDeviceMaintenance4Features maintenance4_{};
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size_{};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable_info_{};
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix_{};
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2_{};
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16_{};
    VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE mixed_dot_{};
};

} // namespace vkattn
