// Vulkan as vkattn is handed it, whose devices say that they have cooperative matrices, whether they do or not: to try who asks
// for their shapes. Such matrices are listed, never used.
#pragma once

#include <volk.h>

#include <atomic>
#include <cstdint>

namespace vkattn_test {

// What the devices are, as far as they say something else than their driver does.
struct MatrixVulkan {
    std::uint32_t vendor_id = 0; // 0: the driver's own, as are these
    std::uint32_t driver_id = 0;
    const char *driver_info = nullptr;
    VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    bool dies = false;                 // when it is asked for the shapes: the call for their number returns
    std::atomic<int> numbers_asked{0}; // calls for their number
    std::atomic<int> shapes_asked{0};
};

// Of all contexts that were given matrix_vulkan_function.
MatrixVulkan &matrix_vulkan();

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL matrix_vulkan_function(VkInstance instance, const char *name);

} // namespace vkattn_test
