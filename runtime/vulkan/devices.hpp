#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/vulkan/functions.hpp"

#include <span>
#include <string>
#include <vector>

namespace vkattn {

struct ListedDevice {
    VkPhysicalDevice handle;
    DeviceCaps caps;
};

bool has_instance_extension(const Functions &vk, const char *name);

// An instance for compute, portability devices included. layers and extensions must exist; next goes into pNext.
VkInstance make_instance(const Functions &vk, std::span<const char *const> layers,
                         std::span<const char *const> extensions, const void *next);

// Every device of the instance, with its facts but matrix shapes, in the loader's order.
std::vector<ListedDevice> list_devices(const Functions &vk, VkInstance instance);

// "": discrete before integrated, virtual, CPU. Digits: an index. Else the first whose name contains it, ignoring case.
// Fails with VKATTN_ERROR_NO_DEVICE and the names there are.
const ListedDevice &select_device(std::span<const ListedDevice> devices, const std::string &selector);

// A family that computes, one with graphics too where there is a choice. Fails, naming the device.
uint32_t compute_queue_family(const Functions &vk, VkPhysicalDevice physical_device, const char *name);

// The family's properties; fails, naming it, unless it exists.
VkQueueFamilyProperties checked_queue_family(const Functions &vk, VkPhysicalDevice physical_device, uint32_t family,
                                             const char *name);
// The same of queue_family, which must compute.
VkQueueFamilyProperties checked_compute_family(const Functions &vk, VkPhysicalDevice physical_device, uint32_t family);

} // namespace vkattn
