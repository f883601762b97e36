#pragma once

#include "runtime/vulkan/context.hpp"

#include <cstddef>

namespace vkattn {

// A storage buffer with memory of its own, in the best memory of the device; mapped where the host sees that memory.
class Buffer {
  public:
    // kStaging and kUniform are seen by the host on every device.
    enum class Use { kStorage, kStaging, kUniform };

    Buffer(Context &context, uint64_t bytes, Use use = Use::kStorage);
    ~Buffer();
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    VkBuffer handle() const { return buffer_; }
    uint64_t bytes() const { return bytes_; }

    // Copies and waits. The range must lie within the buffer.
    void write(uint64_t offset, const void *data, uint64_t bytes);
    void read(uint64_t offset, void *data, uint64_t bytes);

  private:
    void allocate(Use use);
    bool try_allocate(const VkMemoryRequirements &requirements, VkMemoryPropertyFlags wanted);
    void copy_through_staging(uint64_t offset, std::byte *data, uint64_t bytes, bool to_device);
    void destroy() noexcept;

    Context &context_;
    uint64_t bytes_;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    std::byte *mapped_ = nullptr;
};

} // namespace vkattn
