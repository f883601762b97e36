#include "matrix_vulkan.hpp"

#include "runtime/vulkan/vulkan_extensions.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace vkattn_test {
namespace {

PFN_vkEnumerateDeviceExtensionProperties next_extensions = nullptr;
PFN_vkGetPhysicalDeviceFeatures2 next_features = nullptr;
PFN_vkGetPhysicalDeviceProperties next_plain_properties = nullptr;
PFN_vkGetPhysicalDeviceProperties2 next_properties = nullptr;
PFN_vkCreateDevice next_create_device = nullptr;

template <class Structure>
Structure *find(void *chain, VkStructureType type) {
    auto *each = static_cast<VkBaseOutStructure *>(chain);
    while (each != nullptr && each->sType != type) each = each->pNext;
    return reinterpret_cast<Structure *>(each);
}

std::vector<VkExtensionProperties> extensions_of(VkPhysicalDevice device) {
    std::uint32_t count = 0;
    next_extensions(device, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> all(count);
    next_extensions(device, nullptr, &count, all.data());
    return all;
}

bool has_matrices(VkPhysicalDevice device) {
    for (const VkExtensionProperties &each : extensions_of(device))
        if (std::string_view(each.extensionName) == VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) return true;
    return false;
}

VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char *layer, std::uint32_t *count,
                                          VkExtensionProperties *properties) {
    if (layer != nullptr) return next_extensions(device, layer, count, properties);
    std::vector<VkExtensionProperties> all = extensions_of(device);
    if (!has_matrices(device)) {
        VkExtensionProperties more{};
        std::snprintf(more.extensionName, sizeof more.extensionName, "%s", VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
        all.push_back(more);
    }
    for (std::uint32_t i = 0; properties != nullptr && i < *count && i < all.size(); ++i) properties[i] = all[i];
    *count = static_cast<std::uint32_t>(all.size());
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *all) {
    next_features(device, all);
    auto *matrices = find<vkattn::VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(
        all->pNext, vkattn::VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
    if (matrices != nullptr) matrices->cooperativeMatrix = VK_TRUE;
}

void disguise(VkPhysicalDeviceProperties &properties) {
    const MatrixVulkan &given = matrix_vulkan();
    if (given.vendor_id == 0) return;
    properties.vendorID = given.vendor_id;
    properties.deviceType = given.type;
    std::snprintf(properties.deviceName, sizeof properties.deviceName, "A GPU");
}

VKAPI_ATTR void VKAPI_CALL plain_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *all) {
    next_plain_properties(device, all);
    disguise(*all);
}

VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *all) {
    next_properties(device, all);
    disguise(all->properties);
    const MatrixVulkan &given = matrix_vulkan();
    auto *driver =
        find<VkPhysicalDeviceDriverProperties>(all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
    if (driver == nullptr || given.vendor_id == 0) return;
    driver->driverID = static_cast<VkDriverId>(given.driver_id);
    std::snprintf(driver->driverInfo, sizeof driver->driverInfo, "%s", given.driver_info);
    auto *dots = find<VkPhysicalDeviceShaderIntegerDotProductProperties>(
        all->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
    if (dots != nullptr) dots->integerDotProduct4x8BitPackedMixedSignednessAccelerated = VK_TRUE; // as from RDNA3 on
}

VKAPI_ATTR VkResult VKAPI_CALL shapes(VkPhysicalDevice, std::uint32_t *count,
                                      vkattn::VkCooperativeMatrixPropertiesKHR *all) {
    if (all == nullptr) {
        ++matrix_vulkan().numbers_asked;
        *count = 1;
        return VK_SUCCESS;
    }
    ++matrix_vulkan().shapes_asked;
    if (matrix_vulkan().dies) std::abort();
    vkattn::VkCooperativeMatrixPropertiesKHR &shape = all[0];
    shape.MSize = shape.NSize = shape.KSize = 16;
    shape.AType = shape.BType = vkattn::VK_COMPONENT_TYPE_FLOAT16_KHR;
    shape.CType = shape.ResultType = vkattn::VK_COMPONENT_TYPE_FLOAT32_KHR;
    shape.scope = vkattn::VK_SCOPE_SUBGROUP_KHR;
    return VK_SUCCESS;
}

// Takes a structure out of a chain while it lives.
class Without {
  public:
    Without(const void *chain, VkStructureType type) {
        auto *each =
            static_cast<VkBaseOutStructure *>(const_cast<void *>(chain)); // the library's own, which it may change
        for (; each != nullptr && each->pNext != nullptr; each = each->pNext) {
            if (each->pNext->sType != type) continue;
            before_ = each;
            taken_ = each->pNext;
            each->pNext = taken_->pNext;
            return;
        }
    }
    ~Without() {
        if (before_ != nullptr) before_->pNext = taken_;
    }
    Without(const Without &) = delete;
    Without &operator=(const Without &) = delete;

  private:
    VkBaseOutStructure *before_ = nullptr, *taken_ = nullptr;
};

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *given,
                                             const VkAllocationCallbacks *host, VkDevice *device) {
    if (has_matrices(physical)) return next_create_device(physical, given, host, device);
    const Without without(given, vkattn::VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
    std::vector<const char *> names;
    for (std::uint32_t i = 0; i < given->enabledExtensionCount; ++i)
        if (std::strcmp(given->ppEnabledExtensionNames[i], VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME) != 0)
            names.push_back(given->ppEnabledExtensionNames[i]);
    VkDeviceCreateInfo own = *given;
    own.enabledExtensionCount = static_cast<std::uint32_t>(names.size());
    own.ppEnabledExtensionNames = names.data();
    return next_create_device(physical, &own, host, device);
}

template <class Function>
PFN_vkVoidFunction replaced(PFN_vkVoidFunction real, Function &next, Function own) {
    next = reinterpret_cast<Function>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(own);
}

} // namespace

MatrixVulkan &matrix_vulkan() {
    static MatrixVulkan vulkan;
    return vulkan;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL matrix_vulkan_function(VkInstance instance, const char *wanted) {
    const PFN_vkVoidFunction real = vkGetInstanceProcAddr(instance, wanted);
    const std::string_view name = wanted;
    if (instance != VK_NULL_HANDLE && name == "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
        return reinterpret_cast<PFN_vkVoidFunction>(&shapes);
    if (real == nullptr) return real;
    if (name == "vkEnumerateDeviceExtensionProperties") return replaced(real, next_extensions, &extensions);
    if (name == "vkGetPhysicalDeviceFeatures2") return replaced(real, next_features, &features);
    if (name == "vkGetPhysicalDeviceProperties") return replaced(real, next_plain_properties, &plain_properties);
    if (name == "vkGetPhysicalDeviceProperties2") return replaced(real, next_properties, &properties);
    if (name == "vkCreateDevice") return replaced(real, next_create_device, &create_device);
    return real;
}

} // namespace vkattn_test
