#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/device/tunings.hpp"
#include "runtime/device/verdicts.hpp"
#include "runtime/vulkan/debug_labels.hpp"
#include "runtime/vulkan/pipelines.hpp"
#include "runtime/vulkan/variant.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace vkattn {

class Staging;
class Submissions;
class Uniforms;

// A device, borrowed or own, with everything that lives as long as it: functions, facts, pipelines.
class Context {
  public:
    explicit Context(const vkattn_context_info &info);
    ~Context();
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    // Notes what is tried for the first time. device: identity_of. Before what follows.
    void set_journal(std::shared_ptr<CrashJournal> journal, uint64_t device);
    const std::shared_ptr<CrashJournal> &journal() const { return journal_; } // or NULL
    // Asks the driver for what it says of matrices where they may be used: before anything is planned.
    void read_matrices();

    const Functions &vk() const { return vk_; }
    const DeviceCaps &caps() const { return caps_; }
    // With what tests have shown: what kernels are chosen by.
    std::shared_ptr<const DeviceCaps> judged_caps() const { return verdicts_.apply(caps_); }
    Verdicts &verdicts() { return verdicts_; }
    Tunings &tunings() { return tunings_; }
    Variants &variants() { return variants_; }
    void warn(const std::string &message) const; // to the caller's message_callback
    VkInstance instance() const { return instance_; }
    VkPhysicalDevice physical_device() const { return physical_device_; }
    VkDevice device() const { return device_; }
    VkQueue queue() const { return queue_; }
    uint32_t queue_family() const { return queue_family_; }
    VkQueue transfer_queue() const { return transfer_queue_; } // queue() where there is no other
    uint32_t transfer_queue_family() const { return transfer_queue_family_; }
    uint32_t timestamp_bits() const { return timestamp_bits_; } // that the queue writes; 0: none
    Pipelines &pipelines() const { return *pipelines_; }
    Uniforms &uniforms() { return *uniforms_; }
    Staging &staging() { return *staging_; }
    Submissions &submissions() { return *submissions_; }

    // NULL: memory is vkattn's own.
    const vkattn_memory_callbacks *memory_callbacks() const { return memory_ ? &*memory_ : nullptr; }
    bool has_memory_budget() const { return has_memory_budget_; } // VK_EXT_memory_budget
    const DebugLabels &debug_labels() const { return *debug_labels_; }

    // The buffers that vkattn made, with their bytes. Thread safe.
    void add_buffer(VkBuffer buffer, uint64_t bytes);
    void remove_buffer(VkBuffer buffer) noexcept;
    std::optional<uint64_t> buffer_bytes(VkBuffer buffer) const; // of vkattn's own
    // Says whose the buffer is, where others may keep it.
    void share_buffer(VkBuffer buffer, std::weak_ptr<const void> owner);
    // Keeps a shared buffer; NULL of others.
    std::shared_ptr<const void> keep_buffer(VkBuffer buffer) const;

    // vkQueueSubmit, by the caller's callback where it gave one. Thread safe.
    VkResult submit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence);

    // For a device that may still be at work and cannot be waited for: nothing that it may use is destroyed after this.
    void abandon() noexcept { is_abandoned_ = true; }
    bool is_abandoned() const noexcept { return is_abandoned_; }

  private:
    void set_memory_callbacks(const vkattn_memory_callbacks *memory);
    void borrow(const vkattn_context_info &info);
    void create_own(const vkattn_context_info &info);
    void create_instance(const vkattn_context_info &info);
    void create_messenger(const vkattn_context_info &info);
    void choose_device(const char *selector);
    void create_device();
    void destroy() noexcept;
    void leak() noexcept;

    Functions vk_;
    DeviceCaps caps_{};
    std::shared_ptr<CrashJournal> journal_;
    uint64_t journal_device_ = 0;
    Verdicts verdicts_;
    Tunings tunings_;
    Variants variants_{[this](const Shader &shader) { pipelines_->forget(shader, is_abandoned()); }};
    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_device_ = VK_NULL_HANDLE;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    uint32_t queue_family_ = 0;
    VkQueue transfer_queue_ = VK_NULL_HANDLE;
    uint32_t transfer_queue_family_ = 0;
    uint32_t timestamp_bits_ = 0;
    std::optional<DebugLabels> debug_labels_;
    bool has_memory_budget_ = false;
    std::optional<vkattn_memory_callbacks> memory_;
    mutable std::mutex buffers_mutex_;
    struct OwnBuffer {
        uint64_t bytes = 0;
        std::weak_ptr<const void> owner;
    };
    std::map<VkBuffer, OwnBuffer> buffers_;
    bool owns_device_ = false;
    std::atomic<bool> is_abandoned_{false};
    vkattn_message_callback message_callback_ = nullptr;
    void *message_user_ = nullptr;
    std::mutex queue_mutex_; // unused with a callback
    decltype(vkattn_context_info::submit) submit_ = nullptr;
    void *submit_user_ = nullptr;
    std::unique_ptr<Pipelines> pipelines_;
    std::unique_ptr<Staging> staging_;
    std::unique_ptr<Submissions> submissions_;
    std::unique_ptr<Uniforms> uniforms_;
    static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                     VkDebugUtilsMessageTypeFlagsEXT,
                                                     const VkDebugUtilsMessengerCallbackDataEXT *, void *);
};

// Lists every device with its facts but matrix shapes, index filled in. Makes an instance of its own for the time.
std::vector<DeviceCaps> enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr);

} // namespace vkattn
