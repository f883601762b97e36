#define VOLK_IMPLEMENTATION
#include "application.hpp"

#include "device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace vkattn_test {
namespace {

constexpr std::uint64_t kMinute = 60'000'000'000; // ns

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    static_cast<ValidationMessages *>(user)->add(data->pMessage);
    return VK_FALSE;
}

bool has_extension(const std::vector<VkExtensionProperties> &available, const char *name) {
    return std::ranges::any_of(available, [&](const VkExtensionProperties &extension) {
        return std::strcmp(extension.extensionName, name) == 0;
    });
}

// A function that Vulkan 1.2 has, or an extension before it.
template <class Function>
Function timeline_function(VkDevice device, const std::string &name) {
    PFN_vkVoidFunction found = vkGetDeviceProcAddr(device, name.c_str());
    if (found == nullptr) found = vkGetDeviceProcAddr(device, (name + "KHR").c_str());
    const bool exists = found != nullptr;
    REQUIRE(exists);
    return reinterpret_cast<Function>(found);
}

} // namespace

void require_vk(VkResult result) { REQUIRE(result == VK_SUCCESS); }

void load_vulkan() {
    static const VkResult loaded = volkInitialize();
    require_vk(loaded);
}

Application::Application(ApplicationNeeds needs) : needs_(needs) {
    load_vulkan();
    create_instance();
    volkLoadInstance(instance);
    if (validation_wanted()) create_messenger();
    choose_physical_device();
    choose_queue_families();
    choose_extensions();
    create_device();
    const VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, queue_family};
    require_vk(vkCreateCommandPool(device, &pool, nullptr, &command_pool));
}

Application::~Application() {
    vkDestroyCommandPool(device, command_pool, nullptr);
    vkDestroyDevice(device, nullptr);
    if (messenger != VK_NULL_HANDLE) vkDestroyDebugUtilsMessengerEXT(instance, messenger, nullptr);
    vkDestroyInstance(instance, nullptr);
}

vkattn_context_info Application::context_info() const {
    vkattn_context_info info{};
    info.get_instance_proc_addr = vkGetInstanceProcAddr;
    info.instance = instance;
    info.physical_device = physical_device;
    info.device = device;
    info.queue = queue;
    info.queue_family = queue_family;
    info.api_version = VK_API_VERSION_1_1;
    info.enabled_extensions = extensions.data();
    info.enabled_extension_count = static_cast<std::uint32_t>(extensions.size());
    return info;
}

VkCommandBuffer Application::begin() {
    VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, command_pool,
                                         VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    VkCommandBuffer command_buffer = VK_NULL_HANDLE;
    require_vk(vkAllocateCommandBuffers(device, &allocate, &command_buffer));
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    require_vk(vkBeginCommandBuffer(command_buffer, &info));
    return command_buffer;
}

void Application::submit_and_wait(VkCommandBuffer command_buffer) {
    require_vk(vkEndCommandBuffer(command_buffer));
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &command_buffer;
    require_vk(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
    require_vk(vkQueueWaitIdle(queue));
}

void Application::create_instance() {
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = VK_API_VERSION_1_1;
    VkInstanceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    create.pApplicationInfo = &application;
    const char *layer = "VK_LAYER_KHRONOS_validation";
    const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    if (validation_wanted()) {
        create.enabledLayerCount = 1;
        create.ppEnabledLayerNames = &layer;
    }
    if (validation_wanted() || needs_.debug_utils) {
        create.enabledExtensionCount = 1;
        create.ppEnabledExtensionNames = &extension;
    }
    require_vk(vkCreateInstance(&create, nullptr, &instance));
}

void Application::create_messenger() {
    VkDebugUtilsMessengerCreateInfoEXT create{};
    create.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    create.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
    create.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    create.pfnUserCallback = on_message;
    create.pUserData = &validation_messages();
    require_vk(vkCreateDebugUtilsMessengerEXT(instance, &create, nullptr, &messenger));
}

// The device of the other tests.
void Application::choose_physical_device() {
    std::uint32_t count = 0;
    require_vk(vkEnumeratePhysicalDevices(instance, &count, nullptr));
    std::vector<VkPhysicalDevice> devices(count);
    require_vk(vkEnumeratePhysicalDevices(instance, &count, devices.data()));
    for (const VkPhysicalDevice candidate : devices) {
        VkPhysicalDeviceProperties properties{};
        vkGetPhysicalDeviceProperties(candidate, &properties);
        if (std::strcmp(properties.deviceName, test_device().facts().name) == 0) physical_device = candidate;
    }
    REQUIRE(physical_device != VK_NULL_HANDLE);
}

void Application::choose_queue_families() {
    std::uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, families.data());
    const auto compute = std::ranges::find_if(
        families, [](const auto &family) { return (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0; });
    queue_family = transfer_queue_family = static_cast<std::uint32_t>(compute - families.begin());
    constexpr VkQueueFlags kCopies = VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
    for (std::uint32_t family = 0; family < count; ++family)
        if (family != queue_family && (families[family].queueFlags & kCopies) != 0) transfer_queue_family = family;
}

void Application::choose_extensions() {
    std::uint32_t count = 0;
    require_vk(vkEnumerateDeviceExtensionProperties(physical_device, nullptr, &count, nullptr));
    std::vector<VkExtensionProperties> available(count);
    require_vk(vkEnumerateDeviceExtensionProperties(physical_device, nullptr, &count, available.data()));
    std::vector<const char *> wanted;
    if (needs_.wanted_extensions) {
        const char *const *names = vkattn_wanted_extensions(&count);
        wanted.assign(names, names + count);
    }
    if (needs_.timelines) wanted.push_back(VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
    has_addresses = needs_.addresses && has_extension(available, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME);
    if (has_addresses && !needs_.wanted_extensions) wanted.push_back(VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME);
    std::ranges::copy_if(wanted, std::back_inserter(extensions),
                         [&](const char *name) { return has_extension(available, name); });
}

void Application::create_device() {
    VkPhysicalDeviceTimelineSemaphoreFeatures timelines{};
    timelines.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    timelines.timelineSemaphore = VK_TRUE;
    VkPhysicalDeviceBufferDeviceAddressFeatures addresses{};
    addresses.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
    addresses.bufferDeviceAddress = VK_TRUE;
    if (needs_.timelines) addresses.pNext = &timelines;
    const float priority = 1.0f;
    std::vector<VkDeviceQueueCreateInfo> queues;
    queues.push_back({VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, queue_family, 1, &priority});
    if (transfer_queue_family != queue_family)
        queues.push_back({VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, transfer_queue_family, 1, &priority});
    VkDeviceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    create.pNext = has_addresses ? static_cast<const void *>(&addresses) : needs_.timelines ? &timelines : nullptr;
    create.queueCreateInfoCount = static_cast<std::uint32_t>(queues.size());
    create.pQueueCreateInfos = queues.data();
    create.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    create.ppEnabledExtensionNames = extensions.data();
    require_vk(vkCreateDevice(physical_device, &create, nullptr, &device));
    vkGetDeviceQueue(device, queue_family, 0, &queue);
    vkGetDeviceQueue(device, transfer_queue_family, 0, &transfer_queue);
}

Semaphore::Semaphore(VkDevice device, VkSemaphoreType type) : device_(device) {
    VkSemaphoreTypeCreateInfo timeline{};
    timeline.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
    timeline.semaphoreType = type;
    VkSemaphoreCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
    if (type == VK_SEMAPHORE_TYPE_TIMELINE) create.pNext = &timeline;
    require_vk(vkCreateSemaphore(device, &create, nullptr, &handle_));
}

Semaphore::~Semaphore() {
    vkDeviceWaitIdle(device_); // a thread of Mesa 22.3's still writes into timelines that have been reached
    vkDestroySemaphore(device_, handle_, nullptr);
}

void Semaphore::signal(std::uint64_t value) const {
    VkSemaphoreSignalInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
    info.semaphore = handle_;
    info.value = value;
    require_vk(timeline_function<PFN_vkSignalSemaphore>(device_, "vkSignalSemaphore")(device_, &info));
}

bool Semaphore::reaches(std::uint64_t value) const {
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &handle_;
    info.pValues = &value;
    return timeline_function<PFN_vkWaitSemaphores>(device_, "vkWaitSemaphores")(device_, &info, kMinute) == VK_SUCCESS;
}

std::uint64_t Semaphore::value() const {
    std::uint64_t value = 0;
    require_vk(timeline_function<PFN_vkGetSemaphoreCounterValue>(device_, "vkGetSemaphoreCounterValue")(
        device_, handle_, &value));
    return value;
}

std::uint32_t memory_type(VkPhysicalDevice physical_device, std::uint32_t types, VkMemoryPropertyFlags wanted) {
    VkPhysicalDeviceMemoryProperties memory{};
    vkGetPhysicalDeviceMemoryProperties(physical_device, &memory);
    std::uint32_t type = 0;
    while (type < memory.memoryTypeCount &&
           ((types >> type & 1) == 0 || (memory.memoryTypes[type].propertyFlags & wanted) != wanted))
        ++type;
    REQUIRE(type < memory.memoryTypeCount);
    return type;
}

OwnBuffer::OwnBuffer(const Application &app, VkDeviceSize bytes) : device_(app.device) {
    VkBufferCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    create.size = bytes;
    create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
    require_vk(vkCreateBuffer(device_, &create, nullptr, &buffer_));
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device_, buffer_, &needs);
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = memory_type(app.physical_device, needs.memoryTypeBits,
                                           VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
    require_vk(vkAllocateMemory(device_, &allocate, nullptr, &memory_));
    require_vk(vkBindBufferMemory(device_, buffer_, memory_, 0));
    void *mapped = nullptr;
    require_vk(vkMapMemory(device_, memory_, 0, VK_WHOLE_SIZE, 0, &mapped));
    mapped_ = static_cast<std::uint8_t *>(mapped);
}

OwnBuffer::~OwnBuffer() {
    vkDestroyBuffer(device_, buffer_, nullptr);
    vkFreeMemory(device_, memory_, nullptr);
}

} // namespace vkattn_test
