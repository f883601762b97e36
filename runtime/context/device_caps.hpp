#pragma once

#include "runtime/context/device_table.hpp"
#include "runtime/context/functions.hpp"

#include <span>
#include <string>
#include <vector>

namespace vkattn {

// What a device can do, as plain data: what the planner chooses by. Every device fact is read here and every quirk in
// device_table, nowhere else.
struct DeviceCaps : vkattn_device_facts {
    DeviceTraits traits;
};

// Device extensions that kernels or recording use where they exist.
std::span<const char *const> wanted_device_extensions();

std::vector<std::string> device_extensions(const Functions &vk, VkPhysicalDevice physical_device);

// Reads a device's facts. extensions: those that count as available; api_version: the version in use.
DeviceCaps read_device_caps(const Functions &vk, VkPhysicalDevice physical_device, uint32_t api_version,
                            std::span<const std::string> extensions);

} // namespace vkattn
