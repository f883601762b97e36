#pragma once

#include "runtime/vulkan/device_features.hpp"
#include "runtime/device/device_table.hpp"
#include "runtime/vulkan/functions.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

namespace vkattn {

// What a device can do, as plain data: what the planner chooses by. Every device fact is read here and every quirk in
// device_table, nowhere else.
struct DeviceCaps : vkattn_device_facts {
    DeviceTraits traits;
    DeviceFeatures features; // in use: of a wrapped device, those that the application enabled
    // m, n and k of products of f16 may be multiples of these, where flexible_matrices is in use; 0: there are none
    std::array<uint32_t, 3> matrix_granularity;
    // By kernel: which of matrix_shapes, a bit each, it computed something else with.
    std::array<uint32_t, VKATTN_KERNEL_COUNT> failed_matrix_shapes;
};

// Device extensions that kernels or recording use where they exist; what is in the core of a version needs none.
std::span<const char *const> wanted_device_extensions();

std::vector<std::string> device_extensions(const Functions &vk, VkPhysicalDevice physical_device);

// Reads a device's facts, its features as all in use. extensions: those that count as available; api_version: the
// version in use. Which kernels it can run is left open: see judge_kernels.
DeviceCaps read_device_caps(const Functions &vk, VkPhysicalDevice physical_device, uint32_t api_version,
                            std::span<const std::string> extensions);

// For messages of what max_loop_iterations bounds: "on NAME, whose shaders end a loop after N trips".
std::string on_bounded_loops(const DeviceCaps &caps);

} // namespace vkattn
