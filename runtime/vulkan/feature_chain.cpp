#include "runtime/vulkan/feature_chain.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// Links a structure of features into a chain where the device knows it.
template <class Structure>
void link(VkPhysicalDeviceFeatures2 &head, Structure &structure, bool known) {
    if (!known) return;
    structure.pNext = head.pNext;
    head.pNext = &structure;
}

template <class Structure>
const Structure &as(const VkBaseInStructure &structure) {
    return reinterpret_cast<const Structure &>(structure);
}

// Each takes over what one structure of a chain says.
void take(DeviceFeatures &features, const VkPhysicalDeviceBufferDeviceAddressFeatures &given) {
    features.buffer_device_address |= given.bufferDeviceAddress != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceVulkanMemoryModelFeatures &given) {
    features.vulkan_memory_model |= given.vulkanMemoryModel != 0 && given.vulkanMemoryModelDeviceScope != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceShaderFloat16Int8Features &given) {
    features.shader_float16 |= given.shaderFloat16 != 0;
    features.shader_int8 |= given.shaderInt8 != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDevice16BitStorageFeatures &given) {
    features.storage_16bit |= given.storageBuffer16BitAccess != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceVulkan11Features &given) {
    features.storage_16bit |= given.storageBuffer16BitAccess != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDevice8BitStorageFeatures &given) {
    features.storage_8bit |= given.storageBuffer8BitAccess != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceShaderIntegerDotProductFeatures &given) {
    features.integer_dot_product |= given.shaderIntegerDotProduct != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceMaintenance4Features &given) {
    features.maintenance4 |= given.maintenance4 != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceSubgroupSizeControlFeatures &given) {
    features.subgroup_size_control |= given.subgroupSizeControl != 0;
    features.full_subgroups |= given.computeFullSubgroups != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR &given) {
    features.pipeline_executable_info |= given.pipelineExecutableInfo != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceVulkan12Features &given) {
    features.buffer_device_address |= given.bufferDeviceAddress != 0;
    features.vulkan_memory_model |= given.vulkanMemoryModel != 0 && given.vulkanMemoryModelDeviceScope != 0;
    features.shader_float16 |= given.shaderFloat16 != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceVulkan13Features &given) {
    features.integer_dot_product |= given.shaderIntegerDotProduct != 0;
    features.maintenance4 |= given.maintenance4 != 0;
    features.subgroup_size_control |= given.subgroupSizeControl != 0;
    features.full_subgroups |= given.computeFullSubgroups != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceCooperativeMatrixFeaturesKHR &given) {
    features.cooperative_matrix |= given.cooperativeMatrix != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceCooperativeMatrix2FeaturesNV &given) {
    features.cooperative_matrix_reductions |= given.cooperativeMatrixReductions != 0 &&
                                              given.cooperativeMatrixConversions != 0 &&
                                              given.cooperativeMatrixPerElementOperations != 0;
    features.flexible_matrices |= given.cooperativeMatrixFlexibleDimensions != 0;
    features.workgroup_matrices |= given.cooperativeMatrixWorkgroupScope != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceShaderBfloat16FeaturesKHR &given) {
    features.bfloat16_cooperative_matrix |= given.shaderBFloat16Type != 0 && given.shaderBFloat16CooperativeMatrix != 0;
}

void take(DeviceFeatures &features, const VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE &given) {
    features.mixed_float_dot_product |= given.shaderMixedFloatDotProductFloat16AccFloat32 != 0;
}

// Structures of other types are passed by.
void take(DeviceFeatures &features, const VkBaseInStructure &structure) {
    switch (static_cast<int>(structure.sType)) {
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES:
        return take(features, as<VkPhysicalDeviceBufferDeviceAddressFeatures>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES:
        return take(features, as<VkPhysicalDeviceVulkanMemoryModelFeatures>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES:
        return take(features, as<VkPhysicalDeviceShaderFloat16Int8Features>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES:
        return take(features, as<VkPhysicalDevice16BitStorageFeatures>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES:
        return take(features, as<VkPhysicalDevice8BitStorageFeatures>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES:
        return take(features, as<VkPhysicalDeviceShaderIntegerDotProductFeatures>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES:
        return take(features, as<VkPhysicalDeviceMaintenance4Features>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES:
        return take(features, as<VkPhysicalDeviceSubgroupSizeControlFeatures>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR:
        return take(features, as<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES:
        return take(features, as<VkPhysicalDeviceVulkan11Features>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES:
        return take(features, as<VkPhysicalDeviceVulkan12Features>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES:
        return take(features, as<VkPhysicalDeviceVulkan13Features>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR:
        return take(features, as<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV:
        return take(features, as<VkPhysicalDeviceCooperativeMatrix2FeaturesNV>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR:
        return take(features, as<VkPhysicalDeviceShaderBfloat16FeaturesKHR>(structure));
    case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MIXED_FLOAT_DOT_PRODUCT_FEATURES_VALVE:
        return take(features, as<VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE>(structure));
    default:
        return;
    }
}

} // namespace

DeviceFeatures enabled_device_features(const VkPhysicalDeviceFeatures2 *chain) {
    DeviceFeatures features;
    for (const void *next = chain; next != nullptr;) {
        const auto &structure = *static_cast<const VkBaseInStructure *>(next);
        take(features, structure);
        next = structure.pNext;
    }
    return features;
}

bool has_extension(std::span<const std::string> extensions, const char *name) {
    return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
}

DeviceFeatures read_device_features(const Functions &vk, VkPhysicalDevice physical_device, uint32_t api_version,
                                    std::span<const std::string> extensions) {
    const bool vulkan12 = api_version >= VK_API_VERSION_1_2, vulkan13 = api_version >= VK_API_VERSION_1_3;
    const auto known = [&](bool in_core, const char *extension) {
        return in_core || has_extension(extensions, extension);
    };
    VkPhysicalDeviceFeatures2 head{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, nullptr, {}};
    VkPhysicalDevice16BitStorageFeatures storage16{};
    VkPhysicalDevice8BitStorageFeatures storage8{};
    VkPhysicalDeviceShaderFloat16Int8Features float16{};
    VkPhysicalDeviceBufferDeviceAddressFeatures address{};
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
    VkPhysicalDeviceMaintenance4Features maintenance4{};
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size{};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable_info{};
    storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
    float16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    address.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
    memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
    dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
    maintenance4.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES;
    subgroup_size.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    executable_info.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
    link(head, storage16, true);
    link(head, storage8, known(vulkan12, VK_KHR_8BIT_STORAGE_EXTENSION_NAME));
    link(head, float16, known(vulkan12, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME));
    link(head, address, known(vulkan12, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME));
    link(head, memory_model, known(vulkan12, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME));
    link(head, dot, known(vulkan13, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME));
    link(head, maintenance4, vulkan13);
    link(head, subgroup_size, known(vulkan13, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME));
    link(head, executable_info, has_extension(extensions, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME));
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{};
    matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
    link(head, matrix, has_extension(extensions, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME));
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2{};
    matrix2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV;
    link(head, matrix2, has_extension(extensions, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME));
    VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16{};
    bfloat16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR;
    link(head, bfloat16, has_extension(extensions, VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME));
    VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE mixed_dot{};
    mixed_dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MIXED_FLOAT_DOT_PRODUCT_FEATURES_VALVE;
    link(head, mixed_dot, has_extension(extensions, VK_VALVE_SHADER_MIXED_FLOAT_DOT_PRODUCT_EXTENSION_NAME));
    vk.vkGetPhysicalDeviceFeatures2(physical_device, &head);
    return enabled_device_features(&head);
}

FeatureChain::FeatureChain(const DeviceFeatures &features) {
    address_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
    address_.bufferDeviceAddress = VK_TRUE;
    link(address_, features.buffer_device_address);
    memory_model_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
    memory_model_.vulkanMemoryModel = VK_TRUE;
    memory_model_.vulkanMemoryModelDeviceScope = VK_TRUE;
    link(memory_model_, features.vulkan_memory_model);
    storage16_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    storage16_.storageBuffer16BitAccess = VK_TRUE;
    link(storage16_, features.storage_16bit);
    float16_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    float16_.shaderFloat16 = VK_TRUE;
    link(float16_, features.shader_float16);
    dot_product_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
    dot_product_.shaderIntegerDotProduct = VK_TRUE;
    link(dot_product_, features.integer_dot_product);
    maintenance4_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES;
    maintenance4_.maintenance4 = VK_TRUE;
    link(maintenance4_, features.maintenance4);
    subgroup_size_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    subgroup_size_.subgroupSizeControl = features.subgroup_size_control ? VK_TRUE : VK_FALSE;
    subgroup_size_.computeFullSubgroups = features.full_subgroups ? VK_TRUE : VK_FALSE;
    link(subgroup_size_, features.subgroup_size_control || features.full_subgroups);
    executable_info_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
    executable_info_.pipelineExecutableInfo = VK_TRUE;
    link(executable_info_, features.pipeline_executable_info);
    matrix_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
    matrix_.cooperativeMatrix = VK_TRUE;
    link(matrix_, features.cooperative_matrix);
    matrix2_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV;
    matrix2_.cooperativeMatrixReductions = features.cooperative_matrix_reductions ? VK_TRUE : VK_FALSE;
    matrix2_.cooperativeMatrixConversions = matrix2_.cooperativeMatrixReductions;
    matrix2_.cooperativeMatrixPerElementOperations = matrix2_.cooperativeMatrixReductions;
    matrix2_.cooperativeMatrixFlexibleDimensions = features.flexible_matrices ? VK_TRUE : VK_FALSE;
    matrix2_.cooperativeMatrixWorkgroupScope = features.workgroup_matrices ? VK_TRUE : VK_FALSE;
    link(matrix2_, features.cooperative_matrix_reductions || features.flexible_matrices || features.workgroup_matrices);
    bfloat16_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR;
    bfloat16_.shaderBFloat16Type = VK_TRUE;
    bfloat16_.shaderBFloat16CooperativeMatrix = VK_TRUE;
    link(bfloat16_, features.bfloat16_cooperative_matrix);
    mixed_dot_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MIXED_FLOAT_DOT_PRODUCT_FEATURES_VALVE;
    mixed_dot_.shaderMixedFloatDotProductFloat16AccFloat32 = VK_TRUE;
    link(mixed_dot_, features.mixed_float_dot_product);
}

} // namespace vkattn
