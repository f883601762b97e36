#include "runtime/vulkan/device_query.hpp"

#include "runtime/support/error.hpp"
#include "runtime/vulkan/feature_chain.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace vkattn {
namespace {

constexpr const char *kWantedExtensions[] = {
    VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME,
    // in the core of later versions: the features of FeatureChain need them on devices of earlier ones
    VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
    VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME,
    VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
    VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
    VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
    VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME,
    VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME,
    VK_VALVE_SHADER_MIXED_FLOAT_DOT_PRODUCT_EXTENSION_NAME,
};

// The properties and features that facts are read from, chained only where the device knows the structure.
struct Query {
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, nullptr, {}};
    VkPhysicalDeviceIDProperties id{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, nullptr, {}, {}, {}, 0, 0};
    VkPhysicalDeviceSubgroupProperties subgroup{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, nullptr, 0, 0, 0, 0};
    VkPhysicalDeviceDriverProperties driver{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, nullptr, {}, {}, {}, {}};
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup_sizes{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, nullptr, 0, 0, 0, 0};
    VkPhysicalDeviceMaintenance4Properties maintenance4{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
                                                        nullptr, 0};
    VkPhysicalDeviceShaderIntegerDotProductProperties dot_product{};
    VkPhysicalDeviceCooperativeMatrix2PropertiesNV matrix2{};
    // one vendor's extension each
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia_cores{};
    VkPhysicalDeviceShaderCorePropertiesAMD amd_cores{};
    VkPhysicalDeviceShaderCoreProperties2AMD amd_active_cores{};
    VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm_cores{};
};

template <class Head, class Link>
void chain(Head &head, Link &link) {
    link.pNext = head.pNext;
    head.pNext = &link;
}

void chain_cores(std::span<const std::string> extensions, Query &query) {
    const auto link = [&](const char *extension, auto &structure, VkStructureType type) {
        structure.sType = type;
        if (has_extension(extensions, extension)) chain(query.properties, structure);
    };
    link(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME, query.nvidia_cores,
         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
    link(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME, query.amd_cores,
         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
    link(VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME, query.amd_active_cores,
         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD);
    link(VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME, query.arm_cores,
         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM);
}

// extensions: all of the physical device; properties can be read without the extension being enabled.
void read_query(const Functions &vk, VkPhysicalDevice physical_device, uint32_t api_version,
                std::span<const std::string> extensions, Query &query) {
    const bool vulkan12 = api_version >= VK_API_VERSION_1_2, vulkan13 = api_version >= VK_API_VERSION_1_3;
    chain(query.properties, query.id);
    chain(query.properties, query.subgroup);
    if (vulkan12 || has_extension(extensions, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
        chain(query.properties, query.driver);
    if (vulkan13 || has_extension(extensions, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        chain(query.properties, query.subgroup_sizes);
    query.dot_product.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES;
    if (vulkan13 || has_extension(extensions, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME))
        chain(query.properties, query.dot_product);
    query.matrix2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV;
    if (has_extension(extensions, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME)) chain(query.properties, query.matrix2);
    if (vulkan13) chain(query.properties, query.maintenance4);
    chain_cores(extensions, query);
    vk.vkGetPhysicalDeviceProperties2(physical_device, &query.properties);
}

void copy_text(char (&to)[256], const char *from) { std::snprintf(to, sizeof to, "%s", from); }

void set_identity(const Query &query, DeviceCaps &caps) {
    const VkPhysicalDeviceProperties &properties = query.properties.properties;
    copy_text(caps.name, properties.deviceName);
    copy_text(caps.driver_name, query.driver.driverName);
    copy_text(caps.driver_info, query.driver.driverInfo);
    caps.vendor_id = properties.vendorID;
    caps.device_id = properties.deviceID;
    caps.driver_version = properties.driverVersion;
    caps.driver_id = static_cast<uint32_t>(query.driver.driverID);
    caps.device_type = properties.deviceType;
    std::memcpy(caps.device_uuid, query.id.deviceUUID, sizeof caps.device_uuid);
    std::memcpy(caps.driver_uuid, query.id.driverUUID, sizeof caps.driver_uuid);
}

void set_limits(const VkPhysicalDeviceLimits &limits, DeviceCaps &caps) {
    caps.max_storage_buffer_range = limits.maxStorageBufferRange;
    caps.min_storage_buffer_offset_alignment = limits.minStorageBufferOffsetAlignment;
    caps.max_storage_buffers_per_stage =
        std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers);
    caps.max_push_constants_bytes = limits.maxPushConstantsSize;
    caps.max_shared_memory_bytes = limits.maxComputeSharedMemorySize;
    caps.max_workgroup_invocations = std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
    std::copy(std::begin(limits.maxComputeWorkGroupCount), std::end(limits.maxComputeWorkGroupCount),
              std::begin(caps.max_workgroup_count));
    caps.timestamp_period_ns = static_cast<double>(limits.timestampPeriod);
}

void set_features(const Query &query, std::span<const std::string> extensions, DeviceCaps &caps) {
    const DeviceFeatures &features = caps.features;
    caps.storage_16bit = features.storage_16bit;
    caps.shader_float16 = features.shader_float16;
    caps.shader_int8 = features.shader_int8;
    caps.storage_8bit = features.storage_8bit;
    caps.buffer_device_address = features.buffer_device_address;
    caps.integer_dot_product = features.integer_dot_product;
    caps.vulkan_memory_model = features.vulkan_memory_model;
    const bool takes_sizes = (query.subgroup_sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    // some have one size alone
    caps.subgroup_size_control = features.subgroup_size_control && features.full_subgroups && takes_sizes;
    caps.cooperative_matrix = features.cooperative_matrix;
    caps.cooperative_matrix_reductions = features.cooperative_matrix_reductions;
    caps.max_matrix_workgroup = query.matrix2.cooperativeMatrixWorkgroupScopeMaxWorkgroupSize;
    caps.matrix_workgroup_bytes = query.matrix2.cooperativeMatrixWorkgroupScopeReservedSharedMemory;
    caps.subgroup_size = query.subgroup.subgroupSize;
    caps.min_subgroup_size = query.subgroup_sizes.minSubgroupSize;
    caps.max_subgroup_size = query.subgroup_sizes.maxSubgroupSize;
    caps.max_workgroup_subgroups = query.subgroup_sizes.maxComputeWorkgroupSubgroups;
    caps.mixed_integer_dot_product = query.dot_product.integerDotProduct4x8BitPackedMixedSignednessAccelerated;
    caps.signed_integer_dot_product = query.dot_product.integerDotProduct4x8BitPackedSignedAccelerated;
    const bool in_compute = (query.subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    caps.subgroup_features = in_compute ? query.subgroup.supportedOperations : 0;
    caps.pipeline_executable_properties = features.pipeline_executable_info;
    caps.push_descriptors = has_extension(extensions, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
    caps.portability_subset = has_extension(extensions, "VK_KHR_portability_subset");
}

// A structure that was not chained says 0.
void set_cores(const Query &query, DeviceCaps &caps) {
    const VkPhysicalDeviceShaderCorePropertiesAMD &amd = query.amd_cores;
    const uint32_t amd_units = amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
    for (const uint32_t count : {query.nvidia_cores.shaderSMCount, query.amd_active_cores.activeComputeUnitCount,
                                 amd_units, query.arm_cores.shaderCoreCount})
        if (caps.shader_cores == 0) caps.shader_cores = count;
    for (const uint32_t count : {query.nvidia_cores.shaderWarpsPerSM, amd.simdPerComputeUnit * amd.wavefrontsPerSimd,
                                 query.arm_cores.shaderWarpsPerCore})
        if (caps.max_subgroups_per_core == 0) caps.max_subgroups_per_core = count;
}

uint64_t device_local_bytes(const Functions &vk, VkPhysicalDevice physical_device) {
    VkPhysicalDeviceMemoryProperties memory;
    vk.vkGetPhysicalDeviceMemoryProperties(physical_device, &memory);
    uint64_t bytes = 0;
    for (uint32_t heap = 0; heap < memory.memoryHeapCount; ++heap)
        if ((memory.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0)
            bytes += memory.memoryHeaps[heap].size;
    return bytes;
}

// Whether sums of the shape may be rounded to the type of its factors: 16-bit matrices of sums are listed, too.
bool has_rounded_sums(std::span<const VkCooperativeMatrixPropertiesKHR> shapes,
                      const VkCooperativeMatrixPropertiesKHR &shape) {
    return std::ranges::any_of(shapes, [&](const VkCooperativeMatrixPropertiesKHR &each) {
        return each.scope == shape.scope && each.MSize == shape.MSize && each.NSize == shape.NSize &&
               (each.CType == shape.AType || each.ResultType == shape.AType);
    });
}

// The type of factors that kernels can use, whose sums are f32; else NONE.
template <class Product>
vkattn_type factors_of(const Product &product) {
    const bool f32_sums = product.CType == VK_COMPONENT_TYPE_FLOAT32_KHR && product.ResultType == product.CType;
    if (!f32_sums || product.AType != product.BType) return VKATTN_TYPE_NONE;
    if (product.AType == VK_COMPONENT_TYPE_FLOAT16_KHR) return VKATTN_TYPE_F16;
    if (product.AType == VK_COMPONENT_TYPE_BFLOAT16_KHR) return VKATTN_TYPE_BF16;
    return VKATTN_TYPE_NONE;
}

// The type of a shape's factors if kernels can use it, else NONE.
vkattn_type usable_type(const VkCooperativeMatrixPropertiesKHR &shape) {
    const bool fits = std::has_single_bit(shape.MSize) && std::has_single_bit(shape.NSize) &&
                      std::has_single_bit(shape.KSize) && shape.MSize >= 8 && shape.KSize >= 8;
    return shape.scope == VK_SCOPE_SUBGROUP_KHR && fits ? factors_of(shape) : VKATTN_TYPE_NONE;
}

void set_matrix_shapes(const Functions &vk, VkPhysicalDevice physical_device, DeviceCaps &caps) {
    if (vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR == nullptr) return;
    uint32_t count = 0;
    check(vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(physical_device, &count, nullptr),
          "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    VkCooperativeMatrixPropertiesKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    std::vector<VkCooperativeMatrixPropertiesKHR> shapes(count, empty);
    check(vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(physical_device, &count, shapes.data()),
          "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    for (const VkCooperativeMatrixPropertiesKHR &shape : shapes) {
        const vkattn_type type = usable_type(shape);
        if (type == VKATTN_TYPE_NONE || caps.matrix_shape_count == std::size(caps.matrix_shapes)) continue;
        if (has_rounded_sums(shapes, shape)) caps.rounded_shapes |= 1u << caps.matrix_shape_count;
        caps.matrix_shapes[caps.matrix_shape_count++] = {shape.MSize, shape.NSize, shape.KSize, type};
    }
}

void set_flexible_matrices(const Functions &vk, VkPhysicalDevice physical_device, DeviceCaps &caps) {
    const auto query = vk.vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV;
    if (!caps.features.flexible_matrices || query == nullptr) return;
    constexpr const char *kName = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    uint32_t count = 0;
    check(query(physical_device, &count, nullptr), kName);
    VkCooperativeMatrixFlexibleDimensionsPropertiesNV empty{};
    empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV;
    std::vector<VkCooperativeMatrixFlexibleDimensionsPropertiesNV> all(count, empty);
    check(query(physical_device, &count, all.data()), kName);
    auto *next = caps.flexible_matrices.begin();
    for (const auto &each : all) {
        const bool is_whole = each.scope == VK_SCOPE_WORKGROUP_KHR;
        const bool is_in_use = is_whole ? caps.features.workgroup_matrices : each.scope == VK_SCOPE_SUBGROUP_KHR;
        if (!is_in_use || factors_of(each) == VKATTN_TYPE_NONE || next == caps.flexible_matrices.end()) continue;
        *next++ = {factors_of(each), is_whole ? each.workgroupInvocations : 0, each.MGranularity, each.NGranularity,
                   each.KGranularity};
    }
}

} // namespace

std::span<const char *const> wanted_device_extensions() { return kWantedExtensions; }

std::vector<std::string> device_extensions(const Functions &vk, VkPhysicalDevice physical_device) {
    uint32_t count = 0;
    check(vk.vkEnumerateDeviceExtensionProperties(physical_device, nullptr, &count, nullptr),
          "vkEnumerateDeviceExtensionProperties");
    std::vector<VkExtensionProperties> properties(count);
    check(vk.vkEnumerateDeviceExtensionProperties(physical_device, nullptr, &count, properties.data()),
          "vkEnumerateDeviceExtensionProperties");
    std::vector<std::string> names;
    for (const VkExtensionProperties &property : properties) names.emplace_back(property.extensionName);
    return names;
}

DeviceCaps read_device_caps(const Functions &vk, VkPhysicalDevice physical_device, uint32_t api_version,
                            std::span<const std::string> extensions) {
    Query query;
    read_query(vk, physical_device, api_version, device_extensions(vk, physical_device), query);
    DeviceCaps caps{};
    caps.api_version = api_version;
    set_identity(query, caps);
    set_limits(query.properties.properties.limits, caps);
    caps.max_buffer_bytes = query.maintenance4.maxBufferSize;
    caps.features = read_device_features(vk, physical_device, api_version, extensions);
    set_features(query, extensions, caps);
    set_cores(query, caps);
    caps.matrices_are_unasked = true;
    caps.device_memory_bytes = device_local_bytes(vk, physical_device);
    caps.traits = device_traits(caps);
    caps.max_loop_iterations = caps.traits.max_loop_iterations;
    return caps;
}

void read_matrices(const Functions &vk, VkPhysicalDevice physical_device, DeviceCaps &caps) {
    set_matrix_shapes(vk, physical_device, caps);
    set_flexible_matrices(vk, physical_device, caps);
}

} // namespace vkattn
