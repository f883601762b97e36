#include "tools/devices/device_words.hpp"

#include <array>
#include <span>
#include <string_view>

namespace vkattn::tools {
namespace {

struct NamedFlag {
    const char *name;
    std::uint32_t vkattn_device_facts::*member;
};

constexpr std::array<NamedFlag, 16> kFeatures{
    {{"push_descriptors", &vkattn_device_facts::push_descriptors},
     {"storage_16bit", &vkattn_device_facts::storage_16bit},
     {"shader_float16", &vkattn_device_facts::shader_float16},
     {"storage_8bit", &vkattn_device_facts::storage_8bit},
     {"shader_int8", &vkattn_device_facts::shader_int8},
     {"buffer_device_address", &vkattn_device_facts::buffer_device_address},
     {"integer_dot_product", &vkattn_device_facts::integer_dot_product},
     {"mixed_integer_dot_product", &vkattn_device_facts::mixed_integer_dot_product},
     {"signed_integer_dot_product", &vkattn_device_facts::signed_integer_dot_product},
     {"vulkan_memory_model", &vkattn_device_facts::vulkan_memory_model},
     {"subgroup_size_control", &vkattn_device_facts::subgroup_size_control},
     {"cooperative_matrix", &vkattn_device_facts::cooperative_matrix},
     {"cooperative_matrix_reductions", &vkattn_device_facts::cooperative_matrix_reductions},
     {"pipeline_executable_properties", &vkattn_device_facts::pipeline_executable_properties},
     {"portability_subset", &vkattn_device_facts::portability_subset},
     {"timestamps", &vkattn_device_facts::timestamps}}};

constexpr std::array<const char *, 8> kSubgroupFeatures{
    "basic", "vote", "arithmetic", "ballot", "shuffle", "shuffle_relative", "clustered", "quad"};

std::string hex_text(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : bytes) {
        text += kDigits[byte >> 4U];
        text += kDigits[byte & 15U];
    }
    return text;
}

} // namespace

std::string driver_text(const vkattn_device_facts &facts) {
    std::string text = facts.driver_name;
    if (facts.driver_info[0] != '\0') text += (text.empty() ? "" : " ") + std::string(facts.driver_info);
    return text.empty() ? "version " + std::to_string(facts.driver_version) : text;
}

std::string kernel_text(const std::string &kernel, const std::string &reason) {
    return reason.starts_with(kernel) ? reason : kernel + ": " + reason;
}

std::vector<std::string> features(const vkattn_device_facts &facts, bool present) {
    std::vector<std::string> names;
    for (const NamedFlag &feature : kFeatures)
        if ((facts.*feature.member != 0) == present) names.emplace_back(feature.name);
    return names;
}

const char *device_type_name(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return "cpu";
    default:
        return "other";
    }
}

std::string version_text(std::uint32_t version) {
    return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version)) + "." +
           std::to_string(VK_API_VERSION_PATCH(version));
}

std::vector<std::string> subgroup_features(const vkattn_device_facts &facts) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kSubgroupFeatures.size(); ++i)
        if ((facts.subgroup_features >> i & 1U) != 0) names.emplace_back(kSubgroupFeatures[i]);
    return names;
}

std::vector<std::string> matrix_shapes(const vkattn_device_facts &facts) {
    std::vector<std::string> shapes;
    for (const vkattn_matrix_shape &shape : std::span(facts.matrix_shapes, facts.matrix_shape_count))
        shapes.push_back(std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k) +
                         (shape.type == VKATTN_TYPE_BF16 ? " bf16" : " f16"));
    return shapes;
}

std::vector<vkattn_kernel_support> kernels_of(const vkattn_device_facts &facts, vkattn_kernel kernel) {
    std::vector<vkattn_kernel_support> kernels;
    for (const vkattn_kernel_support &support : std::span(facts.kernels, facts.kernel_count))
        if (kernel == VKATTN_KERNEL_AUTO || kernel == support.kernel) kernels.push_back(support);
    return kernels;
}

nlohmann::json to_json(const vkattn_device_facts &facts, vkattn_kernel kernel) {
    nlohmann::json features = nlohmann::json::object();
    for (const NamedFlag &feature : kFeatures) features[feature.name] = facts.*feature.member != 0;
    nlohmann::json kernels = nlohmann::json::array();
    for (const vkattn_kernel_support &support : kernels_of(facts, kernel))
        kernels.push_back({{"name", vkattn_kernel_name(support.kernel)},
                           {"supported", support.supported != 0},
                           {"reason", support.reason}});
    return {{"index", facts.index},
            {"name", facts.name},
            {"type", device_type_name(facts.device_type)},
            {"driver_name", facts.driver_name},
            {"driver_info", facts.driver_info},
            {"driver_version", facts.driver_version},
            {"driver_id", facts.driver_id},
            {"api_version", version_text(facts.api_version)},
            {"vendor_id", facts.vendor_id},
            {"device_id", facts.device_id},
            {"device_uuid", hex_text(facts.device_uuid)},
            {"driver_uuid", hex_text(facts.driver_uuid)},
            {"device_memory_bytes", facts.device_memory_bytes},
            {"max_buffer_bytes", facts.max_buffer_bytes},
            {"max_storage_buffer_range", facts.max_storage_buffer_range},
            {"min_storage_buffer_offset_alignment", facts.min_storage_buffer_offset_alignment},
            {"max_storage_buffers_per_stage", facts.max_storage_buffers_per_stage},
            {"max_push_constants_bytes", facts.max_push_constants_bytes},
            {"max_shared_memory_bytes", facts.max_shared_memory_bytes},
            {"max_workgroup_invocations", facts.max_workgroup_invocations},
            {"max_workgroup_count", facts.max_workgroup_count},
            {"subgroup_size", facts.subgroup_size},
            {"min_subgroup_size", facts.min_subgroup_size},
            {"max_subgroup_size", facts.max_subgroup_size},
            {"shader_cores", facts.shader_cores},
            {"max_subgroups_per_core", facts.max_subgroups_per_core},
            {"subgroup_features", subgroup_features(facts)},
            {"matrix_shapes", matrix_shapes(facts)},
            {"max_loop_iterations", facts.max_loop_iterations},
            {"timestamp_period_ns", facts.timestamp_period_ns},
            {"features", features},
            {"kernels", kernels}};
}

} // namespace vkattn::tools
