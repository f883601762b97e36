#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/vulkan/functions.hpp"

#include <span>
#include <string>
#include <vector>

namespace vkattn {

// Device extensions that kernels or recording use where they exist; what is in the core of a version needs none.
std::span<const char *const> wanted_device_extensions();

std::vector<std::string> device_extensions(const Functions &vk, VkPhysicalDevice physical_device);

// Reads a device's facts but its matrix shapes, its features as all in use. extensions: those that count as available;
// api_version: the version in use. Which kernels it can run is left open.
DeviceCaps read_device_caps(const Functions &vk, VkPhysicalDevice physical_device, uint32_t api_version,
                            std::span<const std::string> extensions);

// Asks for the matrix shapes and for what they may be multiples of. Only where may_use_matrices says yes: over these calls
// some drivers end the process.
void read_matrices(const Functions &vk, VkPhysicalDevice physical_device, DeviceCaps &caps);

} // namespace vkattn
