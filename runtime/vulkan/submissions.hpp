#pragma once

#include "runtime/vulkan/context.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vkattn {

// Command buffers of the context's own, on its queues. What the device has finished is used again. Once the device is lost,
// everything fails with VKATTN_ERROR_DEVICE_LOST. Nothing is locked here while the application submits.
// Thread safe.
class Submissions {
  public:
    enum class Lane { kCompute, kTransfer };

    // What to record, what the device needs until it is done, and what the host does then.
    struct Work {
        std::function<void(VkCommandBuffer)> record; // called before the submission, once a piece; empty: nothing
        std::vector<std::shared_ptr<const void>> kept;
        std::function<void()> done; // by some later call, at the latest by wait; empty: nothing
        // Command buffers, recorded in turn and submitted one by one: systems time each submission, and end long ones.
        uint32_t pieces = 1;
        std::span<const VkCommandBuffer>
            recorded{}; // of what is kept: submitted in place of all that; empty: nothing is
    };

    // has_timelines: the device knows timeline semaphores.
    Submissions(Context &context, bool has_timelines);
    ~Submissions(); // waits

    // Records, submits on the compute queue and waits. pieces: as in Work.
    void run(const std::function<void(VkCommandBuffer)> &record, uint32_t pieces = 1);
    // The same, and returns the milliseconds between timestamps around what was recorded; negative without timestamps.
    double run_and_time(const std::function<void(VkCommandBuffer)> &record, uint32_t pieces);
    // The same of command buffers that are recorded, as CommandBuffers does for the compute queue: one vkQueueSubmit of each.
    void run(std::span<const VkCommandBuffer> recorded);
    double run_and_time(std::span<const VkCommandBuffer> recorded);
    // Records and submits. sync may be NULL. On failure nothing is submitted; if the driver refuses a later piece, what
    // was submitted before has ended.
    void submit(Lane lane, Work work, const vkattn_sync *sync);
    // Waits for all submissions and releases what they used, even where the wait fails. Whether they were done in time.
    bool wait(uint64_t timeout_ns = UINT64_MAX);
    // Whether the device is not done with something that was submitted without a wait.
    bool is_busy() {
        sweep();
        return has_pending();
    }
    // Fails once the device is lost.
    void require_device() const;
    const std::atomic<bool> &is_lost() const { return is_lost_; }

  private:
    class Submission;
    using Owned = std::unique_ptr<Submission>;

    void check_device(VkResult result, const char *call);
    Owned take(Lane lane);
    Owned take_free(Lane lane);
    void launch(Submission &submission, const vkattn_sync *sync);
    void launch_and_wait(Submission &submission);
    double time(const std::function<void(Submission &, bool)> &prepare);
    VkResult wait_for(const Submission &submission, uint64_t timeout_ns = UINT64_MAX) noexcept;
    void give_back(Owned submission);
    void finish(Owned submission);
    bool has_pending();
    void sweep();

    Context &context_;
    bool has_timelines_;
    std::atomic<bool> is_lost_{false};
    std::mutex finishing_;                   // held while what was pending is waited for and finished
    std::mutex mutex_;                       // of the lists
    std::array<std::vector<Owned>, 2> free_; // by lane
    std::list<Owned> pending_;
};

} // namespace vkattn
