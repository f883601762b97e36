#pragma once

#include "runtime/device/code_paths.hpp"
#include "runtime/device/device_features.hpp"
#include "runtime/device/device_table.hpp"

#include <array>
#include <string>

namespace vkattn {

// Products of f16 or bf16 into f32 whose m, n and k may be any multiples of these.
struct FlexibleMatrices {
    vkattn_type type;         // of the factors; NONE: there are none
    uint32_t invocations = 0; // of the workgroup that holds each matrix together; 0: a subgroup does
    uint32_t m = 0, n = 0, k = 0;
};

// What a device can do, as plain data: what kernels are chosen by. Device facts are read in vulkan/device_query, every
// quirk stands in device_table.
struct DeviceCaps : vkattn_device_facts {
    DeviceTraits traits;
    DeviceFeatures features;          // in use: of a wrapped device, those that the application enabled
    uint32_t max_workgroup_subgroups; // of a size that a pipeline asks for; 0: unknown
    bool matrices_are_unasked;        // the driver has not been asked for matrix shapes yet
    uint32_t rounded_shapes;          // which of the matrix shapes have sums of 16 bits as well, a bit each
    std::array<FlexibleMatrices, 16> flexible_matrices; // where the features are in use
    // Of workgroups that hold matrices together: their invocations, and what drivers take of their shared memory.
    uint32_t max_matrix_workgroup, matrix_workgroup_bytes;
    ShaderVerdicts verdicts;
    // In place of the facts' pointer, which is filled in where they are shown.
    vkattn_matrix_shape matrix_shapes[32];
};

// Those of factors of the type, of a workgroup of so many invocations or of a subgroup. nullptr: there are none.
const FlexibleMatrices *flexible_matrices(const DeviceCaps &caps, vkattn_type type, uint32_t invocations);

// Whether a pipeline has full subgroups of this size: the only one that the device has, or one that it can be asked for.
bool has_subgroups_of(const DeviceCaps &caps, uint32_t size);

// Whether kernels may use these operations of subgroups (VkSubgroupFeatureFlags).
bool has_subgroup_operations(const DeviceCaps &caps, uint32_t operations);

// Whether f16 serves between the steps of a layer.
bool has_half_workspaces(const DeviceCaps &caps);

// Whether kernels may use cooperative matrices, as far as is known without their shapes.
bool may_use_matrices(const DeviceCaps &caps);

// Whether each invocation of a subgroup may load through a device address of its own.
bool may_diverge(const DeviceCaps &caps);

// For messages of what max_loop_iterations bounds: "on NAME, whose shaders end a loop after N iterations".
std::string on_bounded_loops(const DeviceCaps &caps);

} // namespace vkattn
