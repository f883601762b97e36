// Our declarations of young extensions are those of Vulkan's headers, as far as these have them.
#include "runtime/vulkan/vulkan_extensions.hpp"
#include "skips.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

// In the global namespace, where Vulkan's names are found unless ours are asked for.
#define SAME_VALUE(name) CHECK(static_cast<long>(vkattn::name) == static_cast<long>(::name))
#define SAME_SIZE(type)                                                                                                \
    CHECK(sizeof(vkattn::type) == sizeof(::type));                                                                     \
    CHECK(alignof(vkattn::type) == alignof(::type))
#define SAME_MEMBER(type, member)                                                                                      \
    CHECK(offsetof(vkattn::type, member) == offsetof(::type, member));                                                 \
    CHECK(sizeof(vkattn::type::member) == sizeof(::type::member))

TEST_SUITE_BEGIN("vulkan_extensions");

TEST_CASE("VK_KHR_cooperative_matrix is declared as in Vulkan's headers") {
#ifdef VK_KHR_cooperative_matrix
    SAME_VALUE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
    SAME_VALUE(VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR);
    SAME_VALUE(VK_COMPONENT_TYPE_FLOAT16_KHR);
    SAME_VALUE(VK_COMPONENT_TYPE_FLOAT32_KHR);
    SAME_VALUE(VK_SCOPE_SUBGROUP_KHR);
    SAME_SIZE(VkComponentTypeKHR);
    SAME_SIZE(VkScopeKHR);
    SAME_SIZE(VkPhysicalDeviceCooperativeMatrixFeaturesKHR);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrixFeaturesKHR, pNext);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrix);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrixRobustBufferAccess);
    SAME_SIZE(VkCooperativeMatrixPropertiesKHR);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, pNext);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, MSize);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, NSize);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, KSize);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, AType);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, BType);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, CType);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, ResultType);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, saturatingAccumulation);
    SAME_MEMBER(VkCooperativeMatrixPropertiesKHR, scope);
#else
    vkattn_test::skip("Vulkan's headers are without VK_KHR_cooperative_matrix");
#endif
}

TEST_CASE("VK_NV_cooperative_matrix2 is declared as in Vulkan's headers") {
#ifdef VK_NV_cooperative_matrix2
    SAME_VALUE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
    SAME_VALUE(VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV);
    SAME_SIZE(VkPhysicalDeviceCooperativeMatrix2FeaturesNV);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, pNext);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, cooperativeMatrixWorkgroupScope);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, cooperativeMatrixFlexibleDimensions);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, cooperativeMatrixReductions);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, cooperativeMatrixConversions);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, cooperativeMatrixPerElementOperations);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, cooperativeMatrixTensorAddressing);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2FeaturesNV, cooperativeMatrixBlockLoads);
    SAME_VALUE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV);
    SAME_SIZE(VkPhysicalDeviceCooperativeMatrix2PropertiesNV);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2PropertiesNV, pNext);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2PropertiesNV, cooperativeMatrixWorkgroupScopeMaxWorkgroupSize);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2PropertiesNV, cooperativeMatrixFlexibleDimensionsMaxDimension);
    SAME_MEMBER(VkPhysicalDeviceCooperativeMatrix2PropertiesNV, cooperativeMatrixWorkgroupScopeReservedSharedMemory);
    SAME_SIZE(VkCooperativeMatrixFlexibleDimensionsPropertiesNV);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, pNext);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, MGranularity);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, NGranularity);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, KGranularity);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, AType);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, BType);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, CType);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, ResultType);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, saturatingAccumulation);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, scope);
    SAME_MEMBER(VkCooperativeMatrixFlexibleDimensionsPropertiesNV, workgroupInvocations);
#else
    vkattn_test::skip("Vulkan's headers are without VK_NV_cooperative_matrix2");
#endif
}

TEST_CASE("VK_KHR_shader_bfloat16 is declared as in Vulkan's headers") {
#ifdef VK_KHR_shader_bfloat16
    SAME_VALUE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
    SAME_VALUE(VK_COMPONENT_TYPE_BFLOAT16_KHR);
    SAME_SIZE(VkPhysicalDeviceShaderBfloat16FeaturesKHR);
    SAME_MEMBER(VkPhysicalDeviceShaderBfloat16FeaturesKHR, pNext);
    SAME_MEMBER(VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16Type);
    SAME_MEMBER(VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16DotProduct);
    SAME_MEMBER(VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16CooperativeMatrix);
#else
    vkattn_test::skip("Vulkan's headers are without VK_KHR_shader_bfloat16");
#endif
}

TEST_CASE("VK_VALVE_shader_mixed_float_dot_product is declared as in Vulkan's headers") {
#ifdef VK_VALVE_shader_mixed_float_dot_product
    SAME_VALUE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MIXED_FLOAT_DOT_PRODUCT_FEATURES_VALVE);
    SAME_SIZE(VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE);
    SAME_MEMBER(VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE, pNext);
    SAME_MEMBER(VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE, shaderMixedFloatDotProductFloat16AccFloat32);
    SAME_MEMBER(VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE, shaderMixedFloatDotProductFloat16AccFloat16);
    SAME_MEMBER(VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE, shaderMixedFloatDotProductBFloat16Acc);
    SAME_MEMBER(VkPhysicalDeviceShaderMixedFloatDotProductFeaturesVALVE, shaderMixedFloatDotProductFloat8AccFloat32);
#else
    vkattn_test::skip("Vulkan's headers are without VK_VALVE_shader_mixed_float_dot_product");
#endif
}

TEST_SUITE_END();
