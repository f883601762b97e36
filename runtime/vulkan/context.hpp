#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/device/tunings.hpp"
#include "runtime/device/verdicts.hpp"
#include "runtime/vulkan/pipelines.hpp"

#include <functional>
#include <memory>

namespace vkattn {

class Uniforms;

// A device, borrowed or own, with everything that lives as long as it: functions, facts, pipelines.
class Context {
  public:
    explicit Context(const vkattn_context_info &info);
    ~Context();
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    const Functions &vk() const { return vk_; }
    const DeviceCaps &caps() const { return caps_; }
    // With what tests have shown: what kernels are chosen by.
    std::shared_ptr<const DeviceCaps> judged_caps() const { return verdicts_.apply(caps_); }
    Verdicts &verdicts() { return verdicts_; }
    Tunings &tunings() { return tunings_; }
    void warn(const std::string &message) const; // to the caller's message_callback
    VkInstance instance() const { return instance_; }
    VkPhysicalDevice physical_device() const { return physical_device_; }
    VkDevice device() const { return device_; }
    VkQueue queue() const { return queue_; }
    uint32_t queue_family() const { return queue_family_; }
    Pipelines &pipelines() const { return *pipelines_; }
    Uniforms &uniforms() { return *uniforms_; }

    // Held during every use of the queue: the caller's lock callbacks, or a mutex of our own.
    void lock_queue();
    void unlock_queue();

  private:
    void borrow(const vkattn_context_info &info);
    void create_own(const vkattn_context_info &info);
    void create_instance(const vkattn_context_info &info);
    void create_messenger(const vkattn_context_info &info);
    void choose_device(const char *selector);
    void create_device();
    void destroy() noexcept;

    Functions vk_;
    DeviceCaps caps_{};
    Verdicts verdicts_;
    Tunings tunings_;
    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_device_ = VK_NULL_HANDLE;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    uint32_t queue_family_ = 0;
    bool owns_device_ = false;
    vkattn_message_callback message_callback_ = nullptr;
    void *message_user_ = nullptr;
    std::function<void()> lock_;
    std::function<void()> unlock_;
    std::unique_ptr<Pipelines> pipelines_;
    std::unique_ptr<Uniforms> uniforms_;
    static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                     VkDebugUtilsMessageTypeFlagsEXT,
                                                     const VkDebugUtilsMessengerCallbackDataEXT *, void *);
};

// Lists every device with its facts, index filled in. Makes an instance of its own for the time.
std::vector<DeviceCaps> enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr);

} // namespace vkattn
