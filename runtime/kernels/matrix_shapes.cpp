#include "runtime/kernels/matrix_shapes.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <span>

namespace vkattn {
namespace {

constexpr VkSubgroupFeatureFlags kSubgroupNeeded =
    VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;

bool is_one_of(const Shader &shader, std::initializer_list<const Shader *> shaders) {
    return std::ranges::find(shaders, &shader) != shaders.end();
}

// Whether weights become sums of 16 bits, which a shape may have or not.
bool rounds_sums(const Shader &shader) {
    return is_one_of(shader, {&shaders::coopmat, &shaders::coopmat_rolled, &shaders::coopmat_bf16});
}

// Whole vectors of eight elements lie along the columns of a product, too.
bool suits(const vkattn_matrix_shape &shape, const Shader &shader) {
    return shape.n >= 8 && (!converts_sums(shader) || shape.n == shape.k);
}

bool has_sums(const DeviceCaps &caps, const Shader &shader, uint32_t index) {
    return !rounds_sums(shader) || (caps.rounded_shapes >> index & 1) != 0;
}

bool any_has_sums(const DeviceCaps &caps, const MatrixUse &use) {
    for (uint32_t index = 0; index < caps.matrix_shape_count; ++index)
        if (caps.matrix_shapes[index].type == use.type && has_sums(caps, *use.shader, index)) return true;
    return false;
}

} // namespace

bool converts_sums(const Shader &shader) {
    return is_one_of(shader, {&shaders::coopmat_ahead, &shaders::coopmat_ahead_bf16});
}

const char *obstacle_of_matrices(const DeviceCaps &caps) {
    const DeviceFeatures &used = caps.features;
    if (caps.cooperative_matrix == 0) return "no VK_KHR_cooperative_matrix";
    if (caps.traits.matrix_units == 0) return "matrices are off on this device and driver (trait matrix_units)";
    if (!used.cooperative_matrix) return "cooperativeMatrix is not enabled";
    if (!used.vulkan_memory_model) return "vulkanMemoryModel is not enabled";
    if (!used.full_subgroups) return "computeFullSubgroups is not enabled";
    if (!has_subgroups_of(caps, caps.subgroup_size))
        return "its subgroups have several sizes, expected subgroupSizeControl to be enabled, which asks for one";
    if (!has_subgroup_operations(caps, kSubgroupNeeded)) return "no subgroup votes and shuffles";
    if (const uint32_t widest = caps.traits.widest_matrix_subgroup; widest != 0 && caps.subgroup_size > widest)
        return "its subgroups are wider than the driver's compiler takes matrices in (widest_matrix_subgroup)";
    if (caps.matrices_are_unasked)
        return "its driver has not been asked for matrix shapes: a context does, unless a process ended over it";
    if (caps.matrix_shape_count == 0)
        return "no matrix shape multiplies f16 or bf16 into f32, m and k powers of two from 8 on";
    return "";
}

bool is_usable_shape(const DeviceCaps &caps, const MatrixUse &use, uint32_t index) {
    if (index >= caps.matrix_shape_count || caps.matrix_shapes[index].type != use.type) return false;
    const vkattn_matrix_shape &shape = caps.matrix_shapes[index];
    return has_sums(caps, *use.shader, index) && suits(shape, *use.shader) &&
           why_off(caps, shader_name(*use.shader, shape), use.paths).empty();
}

std::vector<uint32_t> usable_shapes(const DeviceCaps &caps, const MatrixUse &use) {
    std::vector<uint32_t> indices;
    for (uint32_t index = 0; index < caps.matrix_shape_count; ++index)
        if (is_usable_shape(caps, use, index)) indices.push_back(index);
    std::ranges::stable_sort(indices, std::greater(), [&](uint32_t index) {
        const vkattn_matrix_shape &shape = caps.matrix_shapes[index];
        return shape.m * shape.n * shape.k;
    });
    return indices;
}

const vkattn_matrix_shape *largest_matrix_shape(const DeviceCaps &caps, const MatrixUse &use) {
    const std::vector<uint32_t> indices = usable_shapes(caps, use);
    return indices.empty() ? nullptr : &caps.matrix_shapes[indices.front()];
}

const vkattn_matrix_shape &matrix_shape_of(const DeviceCaps &caps, const MatrixUse &use, uint32_t tuned) {
    if (tuned != 0 && is_usable_shape(caps, use, tuned - 1)) return caps.matrix_shapes[tuned - 1];
    return *largest_matrix_shape(caps, use);
}

std::string matrix_obstacle(const DeviceCaps &caps, const MatrixUse &use) {
    if (use.type == VKATTN_TYPE_F16 && (caps.shader_float16 == 0 || !caps.features.shader_float16))
        return "shaderFloat16 is not enabled";
    if (use.type == VKATTN_TYPE_BF16 && !caps.features.bfloat16_cooperative_matrix)
        return "no bf16 matrices (shaderBFloat16CooperativeMatrix)";
    if (largest_matrix_shape(caps, use) != nullptr) return "";
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    const auto is_of_type = [&](const vkattn_matrix_shape &shape) { return shape.type == use.type; };
    if (std::ranges::none_of(shapes, is_of_type)) return text("no matrix shape for ", type_name(use.type));
    if (!any_has_sums(caps, use))
        return text("no matrix shape for ", type_name(use.type), " whose sums may be ", type_name(use.type),
                    " as well");
    for (const vkattn_matrix_shape &shape : shapes)
        if (const auto off = why_off(caps, shader_name(*use.shader, shape), use.paths); !off.empty())
            return std::string(off);
    return text("no matrix shape for ", type_name(use.type), " with n of 8 or more",
                converts_sums(*use.shader) ? ", and k as large" : "");
}

} // namespace vkattn
