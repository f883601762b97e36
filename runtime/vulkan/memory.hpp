#pragma once

#include "runtime/vulkan/context.hpp"

#include <cstddef>
#include <span>

namespace vkattn {

// A buffer with memory of its own, from the application's callbacks or from the best memory of the device; mapped where
// the host sees that memory.
class Buffer {
  public:
    // name: what the buffer holds, for debuggers; static. On every device the host sees all memory but that for DEVICE.
    Buffer(Context &context, uint64_t bytes, const char *name, vkattn_memory_use use = VKATTN_MEMORY_DEVICE);
    ~Buffer();
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    Context &context() const { return context_; }
    VkBuffer handle() const { return buffer_; }
    uint64_t bytes() const { return bytes_; }
    std::byte *mapped() const { return static_cast<std::byte *>(memory_.mapped); } // NULL: the host does not see it

    // Copy and wait. What has been submitted may use the buffer meanwhile: wait for it before. The range must lie within
    // the buffer.
    void write(uint64_t offset, const void *data, uint64_t bytes);
    void read(uint64_t offset, void *data, uint64_t bytes);

    // Only submit the copy: data is read before the return, or written until the context's submissions have been waited
    // for.
    void upload(uint64_t offset, const void *data, uint64_t bytes, const vkattn_sync *sync);
    void download(uint64_t offset, void *data, uint64_t bytes, const vkattn_sync *sync);

  private:
    void create(vkattn_memory_use use);
    void allocate(vkattn_memory_use use);
    void ask_application(vkattn_memory_request request);
    void allocate_own(const VkMemoryRequirements &requirements, vkattn_memory_use use);
    // free: bytes that may be allocated yet, by heap.
    bool try_allocate(const VkMemoryRequirements &requirements, VkMemoryPropertyFlags wanted, vkattn_memory_use use,
                      const VkPhysicalDeviceMemoryProperties &memory, std::span<const uint64_t> free);
    void map(vkattn_memory_use use);
    void destroy() noexcept;

    Context &context_;
    uint64_t bytes_;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    vkattn_memory memory_{};
    bool is_applications_ = false; // the memory
    bool is_cached_ = false;       // the host reads the mapped memory at the speed of its own
};

// Buffers between host and device that are used again and again.
class Staging {
  public:
    explicit Staging(Context &context) : context_(context) {}

    // A buffer of at least so many bytes for UPLOAD or READBACK, given back when the last one lets go of it, which must be
    // before the context is destroyed. Thread safe.
    std::shared_ptr<Buffer> take(uint64_t bytes, vkattn_memory_use use);

  private:
    void give_back(std::unique_ptr<Buffer> buffer, vkattn_memory_use use) noexcept;

    Context &context_;
    std::mutex mutex_;
    std::unique_ptr<Buffer> upload_, readback_; // the ones kept
};

} // namespace vkattn
