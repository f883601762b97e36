#include "runtime/device/device_caps.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {

const FlexibleMatrices *flexible_matrices(const DeviceCaps &caps, vkattn_type type, uint32_t invocations) {
    const auto *const found = std::ranges::find_if(caps.flexible_matrices, [&](const FlexibleMatrices &each) {
        return each.type == type && each.invocations == invocations && each.m * each.n * each.k != 0;
    });
    return found == caps.flexible_matrices.end() ? nullptr : found;
}

bool has_subgroups_of(const DeviceCaps &caps, uint32_t size) {
    if (size == 0 || size < caps.min_subgroup_size || size > caps.max_subgroup_size) return false;
    const bool takes_wishes = caps.features.subgroup_size_control && caps.features.full_subgroups;
    return caps.min_subgroup_size == caps.max_subgroup_size || (takes_wishes && caps.subgroup_size_control != 0);
}

bool has_subgroup_operations(const DeviceCaps &caps, uint32_t operations) {
    return caps.traits.subgroup_operations != 0 && (caps.subgroup_features & operations) == operations;
}

bool has_half_workspaces(const DeviceCaps &caps) {
    return caps.features.shader_float16 && caps.traits.half_workspaces != 0;
}

bool may_use_matrices(const DeviceCaps &caps) { return caps.cooperative_matrix != 0 && caps.traits.matrix_units != 0; }

bool may_diverge(const DeviceCaps &caps) {
    const uint32_t widest = caps.traits.widest_divergent_addresses;
    return widest == 0 || caps.subgroup_size <= widest;
}

std::string on_bounded_loops(const DeviceCaps &caps) {
    return text("on ", caps.name, ", whose shaders end a loop after ", caps.max_loop_iterations, " iterations");
}

} // namespace vkattn
