#include "runtime/context/device_caps.hpp"

#include "runtime/error.hpp"
#include "shaders/interface.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace vkattn {
namespace {

constexpr std::array<const char *, 1> kWantedExtensions = {VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME};

bool contains(std::span<const std::string> extensions, const char *name) {
    return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
}

// The properties and features that facts are read from, chained only where the device knows the structure.
struct Query {
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, nullptr, {}};
    VkPhysicalDeviceIDProperties id{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, nullptr, {}, {}, {}, 0, 0};
    VkPhysicalDeviceSubgroupProperties subgroup{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, nullptr, 0, 0, 0, 0};
    VkPhysicalDeviceDriverProperties driver{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, nullptr, {}, {}, {}, {}};

    VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, nullptr, {}};
    VkPhysicalDevice16BitStorageFeatures storage16{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, nullptr, 0, 0, 0, 0};
    VkPhysicalDeviceShaderFloat16Int8Features float16{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                                                      nullptr, 0, 0};
    VkPhysicalDevice8BitStorageFeatures storage8{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES, nullptr, 0, 0,
                                                 0};
    VkPhysicalDeviceBufferDeviceAddressFeatures address{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, nullptr, 0, 0, 0};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES, nullptr, 0};
};

template <class Head, class Link>
void chain(Head &head, Link &link) {
    link.pNext = head.pNext;
    head.pNext = &link;
}

void read_query(const Functions &vk, VkPhysicalDevice physical_device, uint32_t api_version,
                std::span<const std::string> extensions, Query &query) {
    const bool vulkan12 = api_version >= VK_API_VERSION_1_2;
    chain(query.properties, query.id);
    chain(query.properties, query.subgroup);
    if (vulkan12 || contains(extensions, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME))
        chain(query.properties, query.driver);
    vk.vkGetPhysicalDeviceProperties2(physical_device, &query.properties);

    chain(query.features, query.storage16);
    if (vulkan12 || contains(extensions, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
        chain(query.features, query.float16);
    if (vulkan12 || contains(extensions, VK_KHR_8BIT_STORAGE_EXTENSION_NAME)) chain(query.features, query.storage8);
    if (vulkan12 || contains(extensions, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME))
        chain(query.features, query.address);
    if (api_version >= VK_API_VERSION_1_3 || contains(extensions, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME))
        chain(query.features, query.dot);
    vk.vkGetPhysicalDeviceFeatures2(physical_device, &query.features);
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
    caps.subgroup_size = query.subgroup.subgroupSize;
    const bool in_compute = (query.subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    caps.subgroup_features = in_compute ? query.subgroup.supportedOperations : 0;
    caps.push_descriptors = contains(extensions, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
    caps.storage_16bit = query.storage16.storageBuffer16BitAccess;
    caps.shader_float16 = query.float16.shaderFloat16;
    caps.shader_int8 = query.float16.shaderInt8;
    caps.storage_8bit = query.storage8.storageBuffer8BitAccess;
    caps.buffer_device_address = query.address.bufferDeviceAddress;
    caps.integer_dot_product = query.dot.shaderIntegerDotProduct;
    caps.cooperative_matrix = contains(extensions, "VK_KHR_cooperative_matrix");
    caps.portability_subset = contains(extensions, "VK_KHR_portability_subset");
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

void set_kernels(DeviceCaps &caps) {
    caps.kernel_count = 0;
    for (vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_UNFUSED}) {
        vkattn_kernel_support &support = caps.kernels[caps.kernel_count++];
        support.kernel = kernel;
        support.supported = caps.max_storage_buffers_per_stage >= ATTENTION_BINDINGS;
        if (support.supported == 0)
            std::snprintf(support.reason, sizeof support.reason,
                          "maxPerStageDescriptorStorageBuffers is %u, expected at least %d",
                          caps.max_storage_buffers_per_stage, ATTENTION_BINDINGS);
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
    read_query(vk, physical_device, api_version, extensions, query);
    DeviceCaps caps{};
    caps.api_version = api_version;
    set_identity(query, caps);
    set_limits(query.properties.properties.limits, caps);
    set_features(query, extensions, caps);
    caps.device_memory_bytes = device_local_bytes(vk, physical_device);
    caps.traits = device_traits(caps.name, caps.driver_info, caps.device_type);
    caps.max_loop_iterations = caps.traits.max_loop_iterations;
    set_kernels(caps);
    return caps;
}

} // namespace vkattn
