// An application that owns all its Vulkan objects, as one that embeds the library does. volk loads Vulkan for it.
#pragma once

#include <volk.h>

#include <vkattn/vkattn.hpp>

#include <vector>

namespace vkattn_test {

// Fails the test case unless the call succeeded.
void require_vk(VkResult result);

// Opens the loader, once: vkGetInstanceProcAddr and what needs no instance are there then.
void load_vulkan();

// What an application's device has beyond the least.
struct ApplicationNeeds {
    bool wanted_extensions = false; // those of vkattn_wanted_extensions that there are
    bool timelines = false;         // VK_KHR_timeline_semaphore; the test case fails where there are none
    bool addresses = false;         // bufferDeviceAddress, as far as there is such
    bool debug_utils = false;       // VK_EXT_debug_utils
};

class Application {
  public:
    explicit Application(ApplicationNeeds needs = {});
    ~Application();
    Application(const Application &) = delete;
    Application &operator=(const Application &) = delete;

    vkattn_context_info context_info() const;

    VkCommandBuffer begin();
    void submit_and_wait(VkCommandBuffer command_buffer);

    VkInstance instance = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
    VkPhysicalDevice physical_device = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    std::uint32_t queue_family = 0;
    // For transfers: of another family where there is one, else queue.
    VkQueue transfer_queue = VK_NULL_HANDLE;
    std::uint32_t transfer_queue_family = 0;
    VkCommandPool command_pool = VK_NULL_HANDLE;
    std::vector<const char *> extensions;
    bool has_addresses = false; // bufferDeviceAddress is enabled

  private:
    void create_instance();
    void create_messenger();
    void choose_physical_device();
    void choose_queue_families();
    void choose_extensions();
    void create_device();

    ApplicationNeeds needs_;
};

// A semaphore of the application's device.
class Semaphore {
  public:
    Semaphore(VkDevice device, VkSemaphoreType type);
    ~Semaphore();
    Semaphore(const Semaphore &) = delete;
    Semaphore &operator=(const Semaphore &) = delete;

    VkSemaphore get() const { return handle_; }
    vkattn_semaphore at(std::uint64_t value = 0) const { return {handle_, value}; }

    // Of timelines.
    void signal(std::uint64_t value) const;
    bool reaches(std::uint64_t value) const; // within a minute
    std::uint64_t value() const;

  private:
    VkDevice device_;
    VkSemaphore handle_ = VK_NULL_HANDLE;
};

// A storage buffer of the application's, in memory that the host sees.
class OwnBuffer {
  public:
    OwnBuffer(const Application &app, VkDeviceSize bytes);
    ~OwnBuffer();
    OwnBuffer(const OwnBuffer &) = delete;
    OwnBuffer &operator=(const OwnBuffer &) = delete;

    VkBuffer get() const { return buffer_; }
    std::uint8_t *mapped() const { return mapped_; }

  private:
    VkDevice device_;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    std::uint8_t *mapped_ = nullptr;
};

// The number of a memory type of those, with such properties.
std::uint32_t memory_type(VkPhysicalDevice physical_device, std::uint32_t types, VkMemoryPropertyFlags wanted);

} // namespace vkattn_test
