#include "runtime/vulkan/submit.hpp"

#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

// One command buffer with its pool and fence.
class Submission {
  public:
    explicit Submission(Context &context) : context_(context), vk_(context.vk()) {
        try {
            create();
        } catch (...) {
            destroy();
            throw;
        }
    }
    ~Submission() { destroy(); }
    Submission(const Submission &) = delete;
    Submission &operator=(const Submission &) = delete;

    void run(const std::function<void(VkCommandBuffer)> &record) {
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
        check(vk_.vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
        record(commands_);
        // what the host reads next
        const VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                      VK_ACCESS_HOST_READ_BIT};
        vk_.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                                 &barrier, 0, nullptr, 0, nullptr);
        check(vk_.vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
        submit();
        wait();
    }

  private:
    void create() {
        VkCommandPoolCreateInfo pool{};
        pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
        pool.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
        pool.queueFamilyIndex = context_.queue_family();
        check(vk_.vkCreateCommandPool(context_.device(), &pool, nullptr, &pool_), "vkCreateCommandPool");
        VkCommandBufferAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
        allocate.commandPool = pool_;
        allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
        allocate.commandBufferCount = 1;
        check(vk_.vkAllocateCommandBuffers(context_.device(), &allocate, &commands_), "vkAllocateCommandBuffers");
        VkFenceCreateInfo fence{};
        fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
        check(vk_.vkCreateFence(context_.device(), &fence, nullptr, &fence_), "vkCreateFence");
    }

    void submit() {
        VkSubmitInfo submit{};
        submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        submit.commandBufferCount = 1;
        submit.pCommandBuffers = &commands_;
        context_.lock_queue();
        const VkResult result = vk_.vkQueueSubmit(context_.queue(), 1, &submit, fence_);
        context_.unlock_queue();
        check(result, "vkQueueSubmit");
    }

    // What the device still works on must not be destroyed: a wait that fails for want of memory is tried again.
    void wait() {
        VkResult result = VK_TIMEOUT;
        for (int tries = 0; tries < 100 && result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST; ++tries)
            result = vk_.vkWaitForFences(context_.device(), 1, &fence_, VK_TRUE, UINT64_MAX);
        check(result, "vkWaitForFences");
    }

    void destroy() noexcept {
        vk_.vkDestroyFence(context_.device(), fence_, nullptr);
        vk_.vkDestroyCommandPool(context_.device(), pool_, nullptr);
    }

    Context &context_;
    const Functions &vk_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkFence fence_ = VK_NULL_HANDLE;
};

// Two timestamps.
class Timer {
  public:
    explicit Timer(Context &context) : context_(context) {
        VkQueryPoolCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
        create.queryType = VK_QUERY_TYPE_TIMESTAMP;
        create.queryCount = 2;
        check(context.vk().vkCreateQueryPool(context.device(), &create, nullptr, &pool_), "vkCreateQueryPool");
    }
    ~Timer() { context_.vk().vkDestroyQueryPool(context_.device(), pool_, nullptr); }
    Timer(const Timer &) = delete;
    Timer &operator=(const Timer &) = delete;

    void start(VkCommandBuffer commands) {
        context_.vk().vkCmdResetQueryPool(commands, pool_, 0, 2);
        stamp(commands, 0);
    }
    void stop(VkCommandBuffer commands) { stamp(commands, 1); }

    // Negative if there is no memory to tell: what was timed is done all the same.
    double milliseconds() const {
        uint64_t ticks[2] = {};
        const VkResult result =
            context_.vk().vkGetQueryPoolResults(context_.device(), pool_, 0, 2, sizeof ticks, ticks, sizeof ticks[0],
                                                VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
        if (result == VK_ERROR_DEVICE_LOST) check(result, "vkGetQueryPoolResults");
        if (result != VK_SUCCESS) return -1.0;
        return static_cast<double>(ticks[1] - ticks[0]) * context_.caps().timestamp_period_ns * 1e-6;
    }

  private:
    // Commands after a timestamp may start before it is written: the barriers hold them.
    void stamp(VkCommandBuffer commands, uint32_t query) {
        const Functions &vk = context_.vk();
        barrier(commands);
        vk.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool_, query);
        barrier(commands);
    }
    void barrier(VkCommandBuffer commands) {
        context_.vk().vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                                           VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, nullptr, 0, nullptr, 0, nullptr);
    }

    Context &context_;
    VkQueryPool pool_ = VK_NULL_HANDLE;
};

} // namespace

void submit_and_wait(Context &context, const std::function<void(VkCommandBuffer)> &record) {
    Submission(context).run(record);
}

double submit_and_time(Context &context, const std::function<void(VkCommandBuffer)> &record) {
    if (context.caps().timestamps == 0) {
        submit_and_wait(context, record);
        return -1.0;
    }
    Timer timer(context);
    submit_and_wait(context, [&](VkCommandBuffer commands) {
        timer.start(commands);
        record(commands);
        timer.stop(commands);
    });
    return timer.milliseconds();
}

} // namespace vkattn
