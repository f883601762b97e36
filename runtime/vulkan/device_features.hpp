#pragma once

#include "runtime/vulkan/functions.hpp"

#include <span>
#include <string>
#include <vector>

namespace vkattn {

// The Vulkan features that kernels can use: as a device has them, as an application enabled them, or as a device of our
// own is made with them.
struct DeviceFeatures {
    bool buffer_device_address = false;
    bool vulkan_memory_model = false; // with device scope
    bool shader_float16 = false;
    bool shader_int8 = false;
    bool storage_16bit = false;
    bool storage_8bit = false;
    bool integer_dot_product = false;
    bool maintenance4 = false;          // workgroup sizes by specialisation in modules of Vulkan 1.3
    bool subgroup_size_control = false; // and computeFullSubgroups
    bool cooperative_matrix = false;
    bool cooperative_matrix_reductions =
        false;                      // and conversions and per-element operations, of VK_NV_cooperative_matrix2
    bool flexible_matrices = false; // multiples of a granularity for dimensions, of VK_NV_cooperative_matrix2
    bool bfloat16_cooperative_matrix = false;
    bool pipeline_executable_info = false; // what the driver's compiler says of pipelines can be asked for
};

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
    VkPhysicalDeviceShaderFloat16Int8Features float16_{};
    VkPhysicalDeviceMaintenance4Features maintenance4_{};
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size_{};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable_info_{};
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix_{};
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2_{};
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16_{};
};

} // namespace vkattn
