#include "device_zoo.hpp"

#include "runtime/kernels/matrix_shapes.hpp"

#include "tools/io/text_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

namespace vkattn_test {
namespace {

using nlohmann::json;

void copy_text(const json &text, char (&to)[256]) {
    std::snprintf(to, sizeof to, "%s", text.get_ref<const std::string &>().c_str());
}

VkPhysicalDeviceType type_of(const std::string &name) {
    if (name == "discrete") return VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    if (name == "integrated") return VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    return name == "cpu" ? VK_PHYSICAL_DEVICE_TYPE_CPU : VK_PHYSICAL_DEVICE_TYPE_OTHER;
}

std::uint32_t version_of(const std::string &text) {
    unsigned major = 0, minor = 0, patch = 0;
    if (std::sscanf(text.c_str(), "%u.%u.%u", &major, &minor, &patch) != 3)
        throw std::runtime_error("api_version: \"" + text + "\", expected three numbers");
    return VK_MAKE_API_VERSION(0, major, minor, patch);
}

// "16x16x16 f16"
vkattn_matrix_shape shape_of(const std::string &text) {
    vkattn_matrix_shape shape{};
    char type[8] = "";
    if (std::sscanf(text.c_str(), "%ux%ux%u %7s", &shape.m, &shape.n, &shape.k, type) != 4)
        throw std::runtime_error("matrix_shapes: \"" + text + "\", expected one as \"16x16x16 f16\"");
    shape.type = std::string(type) == "bf16" ? VKATTN_TYPE_BF16 : VKATTN_TYPE_F16;
    return shape;
}

std::uint32_t subgroup_features_of(const json &names) {
    constexpr const char *kNames[] = {"basic",     "vote", "arithmetic", "ballot", "shuffle", "shuffle_relative",
                                      "clustered", "quad"};
    std::uint32_t bits = 0;
    for (const std::string name : names) {
        const auto *const found = std::find(std::begin(kNames), std::end(kNames), name);
        if (found == std::end(kNames)) throw std::runtime_error("subgroup_features: \"" + name + "\" is unknown");
        bits |= 1U << (found - std::begin(kNames));
    }
    return bits;
}

void set_limits(const json &device, vkattn::DeviceCaps &facts) {
    facts.max_buffer_bytes = device.at("max_buffer_bytes");
    facts.max_storage_buffer_range = device.at("max_storage_buffer_range");
    facts.min_storage_buffer_offset_alignment = device.at("min_storage_buffer_offset_alignment");
    facts.max_storage_buffers_per_stage = device.at("max_storage_buffers_per_stage");
    facts.max_push_constants_bytes = device.at("max_push_constants_bytes");
    facts.max_shared_memory_bytes = device.at("max_shared_memory_bytes");
    facts.max_workgroup_invocations = device.at("max_workgroup_invocations");
    for (std::size_t axis = 0; axis < 3; ++axis)
        facts.max_workgroup_count[axis] = device.at("max_workgroup_count").at(axis);
    facts.subgroup_size = device.at("subgroup_size");
    facts.min_subgroup_size = device.at("min_subgroup_size");
    facts.max_subgroup_size = device.at("max_subgroup_size");
    facts.shader_cores = device.at("shader_cores");
    facts.max_subgroups_per_core = device.at("max_subgroups_per_core");
    facts.subgroup_features = subgroup_features_of(device.at("subgroup_features"));
    for (const std::string shape : device.at("matrix_shapes"))
        facts.matrix_shapes[facts.matrix_shape_count++] = shape_of(shape);
}

void set_features(const json &features, vkattn_device_facts &facts) {
    const auto flag = [&](const char *name) { return features.at(name).get<bool>() ? 1U : 0U; };
    facts.push_descriptors = flag("push_descriptors");
    facts.storage_16bit = flag("storage_16bit");
    facts.shader_float16 = flag("shader_float16");
    facts.shader_int8 = flag("shader_int8");
    facts.storage_8bit = flag("storage_8bit");
    facts.buffer_device_address = facts.buffers_have_addresses = flag("buffer_device_address");
    facts.integer_dot_product = flag("integer_dot_product");
    facts.mixed_integer_dot_product = flag("mixed_integer_dot_product");
    facts.signed_integer_dot_product = features.value("signed_integer_dot_product", false) ? 1U : 0U; // of newer files
    facts.vulkan_memory_model = flag("vulkan_memory_model");
    facts.subgroup_size_control = flag("subgroup_size_control");
    facts.cooperative_matrix = flag("cooperative_matrix");
    facts.cooperative_matrix_reductions = flag("cooperative_matrix_reductions");
    facts.portability_subset = flag("portability_subset");
    facts.timestamps = flag("timestamps");
}

// A context of its own enables what the device has.
vkattn::DeviceFeatures features_in_use(const vkattn::DeviceCaps &facts) {
    vkattn::DeviceFeatures used;
    used.buffer_device_address = facts.buffer_device_address != 0;
    used.vulkan_memory_model = facts.vulkan_memory_model != 0;
    used.shader_float16 = facts.shader_float16 != 0;
    used.shader_int8 = facts.shader_int8 != 0;
    used.storage_16bit = facts.storage_16bit != 0;
    used.storage_8bit = facts.storage_8bit != 0;
    used.integer_dot_product = facts.integer_dot_product != 0;
    used.maintenance4 = facts.api_version >= VK_API_VERSION_1_3; // demands it
    used.subgroup_size_control = facts.subgroup_size_control != 0;
    used.full_subgroups =
        facts.subgroup_size_control != 0 || facts.cooperative_matrix != 0; // which is of no use without
    used.cooperative_matrix = facts.cooperative_matrix != 0;
    used.cooperative_matrix_reductions = facts.cooperative_matrix_reductions != 0;
    used.bfloat16_cooperative_matrix = // or no such shape would be listed
        std::ranges::any_of(facts.matrix_shapes, [](const auto &shape) { return shape.type == VKATTN_TYPE_BF16; });
    return used;
}

ZooDevice device_of(const std::filesystem::path &path) {
    json device = json::parse(vkattn::tools::read_if_there(path));
    if (device.is_array()) device = device.at(0); // as the command lists it
    ZooDevice zoo{path.stem().string(), {}, {}};
    vkattn::DeviceCaps &caps = zoo.caps;
    copy_text(device.at("name"), caps.name);
    copy_text(device.at("driver_name"), caps.driver_name);
    copy_text(device.at("driver_info"), caps.driver_info);
    caps.vendor_id = device.at("vendor_id");
    caps.device_id = device.at("device_id");
    caps.driver_version = device.at("driver_version");
    caps.driver_id = device.at("driver_id");
    caps.api_version = version_of(device.at("api_version"));
    caps.device_type = type_of(device.at("type"));
    set_limits(device, caps);
    set_features(device.at("features"), caps);
    caps.features = features_in_use(caps);
    caps.rounded_shapes = (1u << caps.matrix_shape_count) - 1; // of those that the files list, all are
    caps.traits = vkattn::device_traits(caps);
    caps.max_loop_iterations = caps.traits.max_loop_iterations;
    for (const json &kernel : device.at("kernels")) zoo.kernels[kernel.at("name")] = kernel.at("supported");
    return zoo;
}

} // namespace

std::vector<ZooDevice> device_zoo() {
    std::vector<ZooDevice> devices;
    for (const auto &file : std::filesystem::directory_iterator(VKATTN_TEST_DEVICES))
        if (file.path().extension() == ".json") devices.push_back(device_of(file.path()));
    std::ranges::sort(devices, {}, &ZooDevice::name);
    return devices;
}

} // namespace vkattn_test
