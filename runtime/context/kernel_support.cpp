#include "runtime/context/kernel_support.hpp"

#include "runtime/context/pipelines.hpp"
#include "runtime/error.hpp"
#include "runtime/tensor.hpp"
#include "shaders/interface/attention.h"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace vkattn {
namespace {

constexpr VkSubgroupFeatureFlags kSubgroupNeeded =
    VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;

std::string obstacle_of_bindings(const DeviceCaps &caps) {
    if (caps.max_storage_buffers_per_stage >= ATTENTION_BINDINGS) return "";
    return text("maxPerStageDescriptorStorageBuffers is ", caps.max_storage_buffers_per_stage, ", expected at least ",
                ATTENTION_BINDINGS);
}

std::string obstacle_of_matrices(const DeviceCaps &caps) {
    const DeviceFeatures &used = caps.features;
    if (caps.cooperative_matrix == 0) return "no VK_KHR_cooperative_matrix";
    if (!used.cooperative_matrix) return "cooperativeMatrix is not enabled";
    if (!used.vulkan_memory_model) return "vulkanMemoryModel is not enabled";
    if ((caps.subgroup_features & kSubgroupNeeded) != kSubgroupNeeded) return "no subgroup votes and shuffles";
    if (const uint32_t widest = caps.traits.widest_matrix_subgroup; widest != 0 && caps.subgroup_size > widest)
        return text("subgroups of ", caps.subgroup_size, ", expected at most ", widest,
                    ": the driver's compiler crashes");
    if (caps.matrix_shape_count == 0)
        return "no matrix shape multiplies f16 or bf16 into f32, m and k powers of two from 8 on";
    return "";
}

// Scores of the second extension's kernel become factors where they are, in registers.
bool suits(vkattn_kernel kernel, const vkattn_matrix_shape &shape) {
    return kernel != VKATTN_KERNEL_COOPMAT2 || shape.m == shape.k;
}

std::string obstacle_of(const DeviceCaps &caps, vkattn_kernel kernel) {
    if (std::string bindings = obstacle_of_bindings(caps); !bindings.empty()) return bindings;
    if (kernel != VKATTN_KERNEL_UNFUSED && caps.traits.specialised_arrays == 0)
        return "the driver does not size arrays by specialisation constants";
    const bool second = kernel == VKATTN_KERNEL_COOPMAT2;
    if (kernel != VKATTN_KERNEL_COOPMAT && !second) return "";
    if (!module_is_built(second ? Module::kCoopmat2 : Module::kCoopmat))
        return text("built by a GLSL compiler without ",
                    second ? "GL_NV_cooperative_matrix2" : "GL_KHR_cooperative_matrix");
    if (std::string matrices = obstacle_of_matrices(caps); !matrices.empty()) return matrices;
    if (!second) return "";
    if (!caps.features.maintenance4) return "maintenance4 is not enabled";
    if (caps.cooperative_matrix_reductions == 0) return "no VK_NV_cooperative_matrix2";
    if (!caps.features.cooperative_matrix_reductions) return "cooperativeMatrixReductions and its kin are not enabled";
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    if (std::ranges::none_of(shapes, [&](const vkattn_matrix_shape &shape) { return suits(kernel, shape); }))
        return "no matrix shape has m equal to k";
    return "";
}

} // namespace

bool is_supported(const DeviceCaps &caps, vkattn_kernel kernel) {
    const auto kernels = std::span(caps.kernels).first(caps.kernel_count);
    return std::any_of(kernels.begin(), kernels.end(), [&](const vkattn_kernel_support &support) {
        return support.kernel == kernel && support.supported != 0;
    });
}

bool is_usable_shape(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type, uint32_t place) {
    if (place >= caps.matrix_shape_count || caps.matrix_shapes[place].type != type) return false;
    return suits(kernel, caps.matrix_shapes[place]) &&
           (caps.failed_matrix_shapes[static_cast<size_t>(kernel)] >> place & 1) == 0;
}

std::vector<uint32_t> usable_shapes(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type) {
    std::vector<uint32_t> places;
    for (uint32_t place = 0; place < caps.matrix_shape_count; ++place)
        if (is_usable_shape(caps, kernel, type, place)) places.push_back(place);
    std::ranges::stable_sort(places, std::greater(), [&](uint32_t place) {
        const vkattn_matrix_shape &shape = caps.matrix_shapes[place];
        return shape.m * shape.n * shape.k;
    });
    return places;
}

const vkattn_matrix_shape *largest_matrix_shape(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type) {
    const std::vector<uint32_t> places = usable_shapes(caps, kernel, type);
    return places.empty() ? nullptr : &caps.matrix_shapes[places.front()];
}

std::string matrix_obstacle(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type) {
    if (type == VKATTN_TYPE_F16 && (caps.shader_float16 == 0 || !caps.features.shader_float16))
        return "shaderFloat16 is not enabled";
    if (type == VKATTN_TYPE_BF16 && !caps.features.bfloat16_cooperative_matrix)
        return "no bf16 matrices (shaderBFloat16CooperativeMatrix)";
    if (largest_matrix_shape(caps, kernel, type) != nullptr) return "";
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    const auto is_of_type = [&](const vkattn_matrix_shape &shape) { return shape.type == type; };
    if (std::ranges::none_of(shapes, is_of_type)) return text("no matrix shape for ", type_name(type));
    if (caps.failed_matrix_shapes[static_cast<size_t>(kernel)] != 0)
        return text("no matrix shape for ", type_name(type), " has passed the self-test");
    return text("no matrix shape for ", type_name(type), " with m equal to k");
}

bool may_diverge(const DeviceCaps &caps) {
    const uint32_t widest = caps.traits.widest_divergent_addresses;
    return widest == 0 || caps.subgroup_size <= widest;
}

void judge_kernels(DeviceCaps &caps) {
    caps.kernel_count = 0;
    for (vkattn_kernel kernel : {VKATTN_KERNEL_COOPMAT2, VKATTN_KERNEL_COOPMAT, VKATTN_KERNEL_FLASH,
                                 VKATTN_KERNEL_DECODE, VKATTN_KERNEL_LATENT_DECODE, VKATTN_KERNEL_UNFUSED}) {
        vkattn_kernel_support &support = caps.kernels[caps.kernel_count++];
        const std::string obstacle = obstacle_of(caps, kernel);
        support.kernel = kernel;
        support.supported = obstacle.empty() ? 1 : 0;
        std::snprintf(support.reason, sizeof support.reason, "%s", obstacle.c_str());
    }
}

} // namespace vkattn
