#pragma once

#include "runtime/vulkan/memory.hpp"

#include <mutex>

namespace vkattn {

// Where one plan's constants lie.
struct UniformSlot {
    VkBuffer buffer = VK_NULL_HANDLE;
    uint64_t offset = 0; // bytes
};

// Small uniform blocks that the host writes once: what plans hold beyond push constants. Slots are cut from blocks that
// live as long as the context, so that making a plan rarely allocates device memory. Thread safe.
class Uniforms {
  public:
    static constexpr uint64_t kSlotBytes = 512; // a multiple of the largest minUniformBufferOffsetAlignment, 256

    explicit Uniforms(Context &context) : context_(context) {}

    // Takes a slot and copies the data, at most kSlotBytes, into it.
    UniformSlot take(const void *data, uint64_t bytes);
    // No command that reads the slot may be pending.
    void give_back(UniformSlot slot) noexcept;

  private:
    static constexpr uint64_t kBlockBytes = 64 * kSlotBytes;

    void add_block();

    Context &context_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Buffer>> blocks_;
    std::vector<UniformSlot> free_;
};

} // namespace vkattn
