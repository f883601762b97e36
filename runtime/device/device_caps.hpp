#pragma once

#include "runtime/device/code_paths.hpp"
#include "runtime/device/device_features.hpp"
#include "runtime/device/device_table.hpp"

#include <array>
#include <string>

namespace vkattn {

// What a device can do, as plain data: what kernels are chosen by. Device facts are read in vulkan/device_query, every
// quirk stands in device_table.
struct DeviceCaps : vkattn_device_facts {
    DeviceTraits traits;
    DeviceFeatures features; // in use: of a wrapped device, those that the application enabled
    // m, n and k of products of f16 may be multiples of these, where flexible_matrices is in use; 0: there are none
    std::array<uint32_t, 3> matrix_granularity;
    ShaderVerdicts verdicts;
};

// Whether each invocation of a subgroup may load through a device address of its own.
bool may_diverge(const DeviceCaps &caps);

// For messages of what max_loop_iterations bounds: "on NAME, whose shaders end a loop after N iterations".
std::string on_bounded_loops(const DeviceCaps &caps);

} // namespace vkattn
