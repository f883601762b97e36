#include "runtime/vulkan/uniforms.hpp"

#include <algorithm>

namespace vkattn {

void Uniforms::add_block() {
    auto block = std::make_unique<Buffer>(context_, kBlockBytes, "vkattn uniforms", VKATTN_MEMORY_UNIFORM);
    blocks_.reserve(blocks_.size() + 1);                            // once slots of the block are free, nothing fails
    free_.reserve((blocks_.size() + 1) * kBlockBytes / kSlotBytes); // giving back never allocates
    for (uint64_t offset = 0; offset < kBlockBytes; offset += kSlotBytes) free_.push_back({block->handle(), offset});
    blocks_.push_back(std::move(block));
}

UniformSlot Uniforms::take(const void *data, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) add_block();
    const UniformSlot slot = free_.back();
    const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                    [&](const auto &candidate) { return candidate->handle() == slot.buffer; });
    (*block)->write(slot.offset, data, bytes);
    free_.pop_back();
    return slot;
}

void Uniforms::give_back(UniformSlot slot) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
}

} // namespace vkattn
