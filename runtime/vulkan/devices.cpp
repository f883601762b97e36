#include "runtime/vulkan/devices.hpp"

#include "runtime/support/error.hpp"
#include "runtime/vulkan/device_query.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace vkattn {
namespace {

constexpr const char *kPortabilityEnumeration = "VK_KHR_portability_enumeration";
constexpr VkInstanceCreateFlags kEnumeratePortability = 0x00000001; // VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR

uint32_t instance_version(const Functions &vk) {
    uint32_t version = VK_API_VERSION_1_0;
    if (vk.vkEnumerateInstanceVersion != nullptr)
        check(vk.vkEnumerateInstanceVersion(&version), "vkEnumerateInstanceVersion");
    if (version < VK_API_VERSION_1_1) fail(VKATTN_ERROR_NO_VULKAN, "Vulkan loader: version 1.0, expected at least 1.1");
    return std::min(version, VK_API_VERSION_1_3);
}

std::string lower(std::string value) {
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return value;
}

int preference(VkPhysicalDeviceType type) {
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return 3;
    default:
        return 4;
    }
}

std::string names_of(std::span<const ListedDevice> devices) {
    std::string names;
    for (const ListedDevice &device : devices)
        names += text(names.empty() ? "" : ", ", device.caps.index, " ", device.caps.name);
    return names;
}

std::vector<VkQueueFamilyProperties> queue_families(const Functions &vk, VkPhysicalDevice physical_device) {
    uint32_t count = 0;
    vk.vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vk.vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, families.data());
    return families;
}

} // namespace

bool has_instance_extension(const Functions &vk, const char *name) {
    uint32_t count = 0;
    check(vk.vkEnumerateInstanceExtensionProperties(nullptr, &count, nullptr),
          "vkEnumerateInstanceExtensionProperties");
    std::vector<VkExtensionProperties> extensions(count);
    check(vk.vkEnumerateInstanceExtensionProperties(nullptr, &count, extensions.data()),
          "vkEnumerateInstanceExtensionProperties");
    return std::any_of(extensions.begin(), extensions.end(), [&](const VkExtensionProperties &extension) {
        return std::string(extension.extensionName) == name;
    });
}

VkInstance make_instance(const Functions &vk, std::span<const char *const> layers,
                         std::span<const char *const> extensions, const void *next) {
    std::vector<const char *> enabled(extensions.begin(), extensions.end());
    const bool portability = has_instance_extension(vk, kPortabilityEnumeration);
    if (portability) enabled.push_back(kPortabilityEnumeration);
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pEngineName = "vkattn";
    application.apiVersion = instance_version(vk);
    VkInstanceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    create.pNext = next;
    create.flags = portability ? kEnumeratePortability : 0;
    create.pApplicationInfo = &application;
    create.enabledLayerCount = static_cast<uint32_t>(layers.size());
    create.ppEnabledLayerNames = layers.data();
    create.enabledExtensionCount = static_cast<uint32_t>(enabled.size());
    create.ppEnabledExtensionNames = enabled.data();
    VkInstance instance = VK_NULL_HANDLE;
    const VkResult result = vk.vkCreateInstance(&create, nullptr, &instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        fail(VKATTN_ERROR_NO_VULKAN, "Vulkan loader: no driver found, expected one (Debian: mesa-vulkan-drivers)");
    check(result, "vkCreateInstance");
    return instance;
}

std::vector<ListedDevice> list_devices(const Functions &vk, VkInstance instance) {
    uint32_t count = 0;
    const VkResult result = vk.vkEnumeratePhysicalDevices(instance, &count, nullptr);
    if (result == VK_ERROR_INITIALIZATION_FAILED) return {}; // how some loaders say that there is no driver
    check(result, "vkEnumeratePhysicalDevices");
    std::vector<VkPhysicalDevice> handles(count);
    check(vk.vkEnumeratePhysicalDevices(instance, &count, handles.data()), "vkEnumeratePhysicalDevices");
    handles.resize(count);
    std::vector<ListedDevice> devices;
    const uint32_t loader_version = instance_version(vk);
    for (VkPhysicalDevice handle : handles) {
        VkPhysicalDeviceProperties properties;
        vk.vkGetPhysicalDeviceProperties(handle, &properties);
        const uint32_t version = std::min(loader_version, properties.apiVersion);
        const std::vector<std::string> extensions = device_extensions(vk, handle);
        devices.push_back({handle, read_device_caps(vk, handle, version, extensions)});
        const auto families = queue_families(vk, handle);
        devices.back().caps.timestamps = std::any_of(families.begin(), families.end(), [](const auto &family) {
            return (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && family.timestampValidBits != 0;
        });
        devices.back().caps.index = static_cast<uint32_t>(devices.size()) - 1;
    }
    return devices;
}

const ListedDevice &select_device(std::span<const ListedDevice> devices, const std::string &selector) {
    if (devices.empty()) fail(VKATTN_ERROR_NO_DEVICE, "device: Vulkan lists none, expected at least one");
    if (selector.empty())
        return *std::ranges::min_element(devices, {}, [](const ListedDevice &device) {
            const bool has_memory = device.caps.device_memory_bytes != 0; // drivers that only list a GPU say none
            return std::pair(!has_memory, preference(device.caps.device_type));
        });
    const bool is_index = selector.find_first_not_of("0123456789") == std::string::npos;
    for (const ListedDevice &device : devices) {
        const bool matches = is_index ? std::to_string(device.caps.index) == selector
                                      : lower(device.caps.name).find(lower(selector)) != std::string::npos;
        if (matches) return device;
    }
    fail(VKATTN_ERROR_NO_DEVICE, "device: no device is ", selector, ", expected one of: ", names_of(devices));
}

uint32_t compute_queue_family(const Functions &vk, VkPhysicalDevice physical_device, const char *name) {
    const std::vector<VkQueueFamilyProperties> families = queue_families(vk, physical_device);
    for (VkQueueFlags wanted : {VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT, VK_QUEUE_COMPUTE_BIT + 0})
        for (uint32_t family = 0; family < families.size(); ++family)
            if ((families[family].queueFlags & wanted) == wanted) return family;
    fail(VKATTN_ERROR_NO_DEVICE, "device ", name, ": no queue family computes, expected one");
}

VkQueueFamilyProperties checked_queue_family(const Functions &vk, VkPhysicalDevice physical_device, uint32_t family,
                                             const char *name) {
    const std::vector<VkQueueFamilyProperties> families = queue_families(vk, physical_device);
    require(family < families.size(), name, ": ", family, ", expected less than the device's ", families.size());
    return families[family];
}

VkQueueFamilyProperties checked_compute_family(const Functions &vk, VkPhysicalDevice physical_device, uint32_t family) {
    const VkQueueFamilyProperties properties = checked_queue_family(vk, physical_device, family, "queue_family");
    require((properties.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0, "queue_family: ", family,
            " does not compute, expected a family with VK_QUEUE_COMPUTE_BIT");
    return properties;
}

} // namespace vkattn
