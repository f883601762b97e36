#pragma once

#include "runtime/vulkan/context.hpp"

#include <functional>
#include <span>
#include <vector>

namespace vkattn {

// Command buffers with their pool. Each sees what was submitted on its queue before, and what it writes is seen by the host
// and by what is submitted there later. One thread at a time.
class CommandBuffers {
  public:
    enum class Use { kOnce, kAgain }; // submitted once; again and again, also while it is still pending

    CommandBuffers(Context &context, uint32_t queue_family, Use use);
    ~CommandBuffers();
    CommandBuffers(const CommandBuffers &) = delete;
    CommandBuffers &operator=(const CommandBuffers &) = delete;

    // Calls record, which may be empty, once for each of so many.
    void record(const std::function<void(VkCommandBuffer)> &record, uint32_t count);
    std::span<const VkCommandBuffer> recorded() const { return std::span(commands_).first(recorded_); }
    // Ready to be recorded again: none may be pending. release: gives their memory back to the driver, too.
    void reset(bool release);

  private:
    void allocate(uint32_t count);
    void record_one(VkCommandBuffer commands, const std::function<void(VkCommandBuffer)> &record) const;

    Context &context_;
    const Functions &vk_;
    Use use_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    std::vector<VkCommandBuffer> commands_;
    uint32_t recorded_ = 0; // of them
};

} // namespace vkattn
