#include "runtime/vulkan/submissions.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"
#include "runtime/vulkan/command_buffers.hpp"
#include "runtime/vulkan/handles.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <thread>

namespace vkattn {
namespace {

constexpr int kMostWaits = 100; // that fail for another reason than a lost device

// The semaphores of a vkattn_sync as Vulkan takes them.
class Semaphores {
  public:
    Semaphores(const vkattn_semaphore *list, uint32_t count, const char *name) {
        require(list != nullptr || count == 0, "sync.", name, ": NULL, expected ", count, " semaphores");
        for (const vkattn_semaphore &semaphore : std::span(list, count)) {
            require(semaphore.semaphore != VK_NULL_HANDLE, "sync.", name,
                    ": VK_NULL_HANDLE, expected a semaphore of the device");
            handles.push_back(semaphore.semaphore);
            values.push_back(semaphore.value);
        }
        stages.assign(count, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    }
    uint32_t count() const { return static_cast<uint32_t>(handles.size()); }

    std::vector<VkSemaphore> handles;
    std::vector<uint64_t> values;
    std::vector<VkPipelineStageFlags> stages;
};

// Of the wait for a fence.
void check_waited(VkResult result) {
    if (result == VK_SUCCESS || result == VK_ERROR_DEVICE_LOST) return check(result, "vkWaitForFences");
    fail(VKATTN_ERROR_DEVICE_LOST, "vkWaitForFences failed with VkResult ", static_cast<int>(result), " ", kMostWaits,
         " times in a row, expected success: the device is taken for lost");
}

// When a wait ends.
class Deadline {
  public:
    // timeout_ns: from now on; UINT64_MAX: never.
    explicit Deadline(uint64_t timeout_ns) : timeout_ns_(timeout_ns), begin_(Clock::now()) {}
    uint64_t remaining_ns() const {
        if (timeout_ns_ == UINT64_MAX) return UINT64_MAX;
        const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count();
        return timeout_ns_ - std::min(timeout_ns_, static_cast<uint64_t>(passed));
    }

  private:
    using Clock = std::chrono::steady_clock;
    uint64_t timeout_ns_;
    Clock::time_point begin_;
};

// Whether it is locked in time.
bool lock_until(std::mutex &mutex, const Deadline &deadline) {
    constexpr std::chrono::microseconds kPause{100};
    if (deadline.remaining_ns() == UINT64_MAX) {
        mutex.lock();
        return true;
    }
    while (!mutex.try_lock()) {
        if (deadline.remaining_ns() == 0) return false;
        std::this_thread::sleep_for(kPause);
    }
    return true;
}

} // namespace

// Command buffers, its own or recorded before, the fence of the last and, once they were asked for, two timestamps.
class Submissions::Submission {
  public:
    Submission(Context &context, Lane lane)
        : context_(context), vk_(context.vk()), lane_(lane),
          queue_(lane == Lane::kCompute ? context.queue() : context.transfer_queue()),
          own_(context, lane == Lane::kCompute ? context.queue_family() : context.transfer_queue_family(),
               CommandBuffers::Use::kOnce) {
        VkFenceCreateInfo fence{};
        fence.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
        make_handle(fence_, "vkCreateFence", vk_.vkCreateFence, context_.device(), &fence, nullptr);
    }
    ~Submission() {
        if (context_.is_abandoned()) return;
        vk_.vkDestroyQueryPool(context_.device(), timer_, nullptr);
        vk_.vkDestroyFence(context_.device(), fence_, nullptr);
    }
    Submission(const Submission &) = delete;
    Submission &operator=(const Submission &) = delete;

    Lane lane() const { return lane_; }

    void record(const std::function<void(VkCommandBuffer)> &record, uint32_t pieces) {
        own_.record(record, pieces);
        pieces_.assign(own_.recorded().begin(), own_.recorded().end());
        is_stamped_ = false;
        is_large_ = pieces > 1;
    }

    // Takes what is recorded; where it is timed, between two command buffers with the timestamps, which are submitted with
    // the first piece and with the last.
    void take(std::span<const VkCommandBuffer> recorded, bool timed) {
        pieces_.assign(recorded.begin(), recorded.end());
        is_stamped_ = timed;
        is_large_ = false;
        if (!timed) return;
        uint32_t stamped = 0;
        own_.record([&](VkCommandBuffer commands) { stamp(commands, stamped++); }, 2);
        pieces_.insert(pieces_.begin(), own_.recorded().front());
        pieces_.push_back(own_.recorded().back());
    }

    VkResult submit(const vkattn_sync *sync, bool has_timelines) {
        const vkattn_sync given = sized_or_default(sync, "sync");
        const Semaphores waits(given.waits, given.wait_count, "waits");
        const Semaphores signals(given.signals, given.signal_count, "signals");
        const VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                   nullptr,
                                                   waits.count(),
                                                   waits.values.data(),
                                                   signals.count(),
                                                   signals.values.data()};
        VkSubmitInfo submit{};
        submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        if (has_timelines) submit.pNext = &values; // of binary semaphores they are ignored
        submit.waitSemaphoreCount = waits.count();
        submit.pWaitSemaphores = waits.handles.data();
        submit.pWaitDstStageMask = waits.stages.data();
        submit.signalSemaphoreCount = signals.count();
        submit.pSignalSemaphores = signals.handles.data();
        uint32_t submitted = 0;
        const VkResult result = submit_pieces(submit, values, submitted);
        const bool is_cut = result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST && submitted > 0;
        VkResult end = is_cut ? context_.submit(queue_, 0, nullptr, fence_) : VK_SUCCESS;
        // nobody else would wait for the pieces before the one that was refused
        if (is_cut && end == VK_SUCCESS) end = wait();
        if (end == VK_SUCCESS) return result;
        if (end != VK_ERROR_DEVICE_LOST) context_.abandon();
        return VK_ERROR_DEVICE_LOST;
    }

    bool is_done() const { return vk_.vkGetFenceStatus(context_.device(), fence_) == VK_SUCCESS; }

    // What the device still works on cannot be used again: a wait that fails for want of memory is tried again.
    VkResult wait(uint64_t timeout_ns = UINT64_MAX) const noexcept {
        const auto is_over = [timeout_ns](VkResult result) {
            return result == VK_SUCCESS || result == VK_ERROR_DEVICE_LOST ||
                   (result == VK_TIMEOUT && timeout_ns != UINT64_MAX);
        };
        VkResult result = VK_NOT_READY;
        for (int tries = 0; tries < kMostWaits && !is_over(result); ++tries)
            result = vk_.vkWaitForFences(context_.device(), 1, &fence_, VK_TRUE, timeout_ns);
        return result;
    }

    // Ready to be recorded again.
    void reset() {
        check(vk_.vkResetFences(context_.device(), 1, &fence_), "vkResetFences");
        own_.reset(is_large_);
    }

    void start_timer() {
        if (timer_ == VK_NULL_HANDLE) {
            VkQueryPoolCreateInfo create{};
            create.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
            create.queryType = VK_QUERY_TYPE_TIMESTAMP;
            create.queryCount = 2;
            make_handle(timer_, "vkCreateQueryPool", vk_.vkCreateQueryPool, context_.device(), &create, nullptr);
        }
    }

    // Commands after a timestamp may start before it is written: the barriers hold them.
    void stamp(VkCommandBuffer commands, uint32_t query) {
        if (query == 0) vk_.vkCmdResetQueryPool(commands, timer_, 0, 2);
        order(commands);
        vk_.vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, timer_, query);
        order(commands);
    }

    // Negative if there is no memory to tell: what was timed is done all the same.
    VkResult read_timer(double &milliseconds) const {
        uint64_t ticks[2] = {};
        const VkResult result =
            vk_.vkGetQueryPoolResults(context_.device(), timer_, 0, 2, sizeof ticks, ticks, sizeof ticks[0],
                                      VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
        const uint64_t valid = UINT64_MAX >> (64 - context_.timestamp_bits());
        milliseconds = -1.0;
        if (result == VK_SUCCESS)
            milliseconds =
                static_cast<double>((ticks[1] - ticks[0]) & valid) * context_.caps().timestamp_period_ns * 1e-6;
        return result;
    }

    Work work; // while it is pending

  private:
    // The first piece waits, the last signals. One call a piece: drivers join what one call submits.
    VkResult submit_pieces(const VkSubmitInfo &whole, const VkTimelineSemaphoreSubmitInfo &values,
                           uint32_t &submitted) {
        const uint32_t stamps = is_stamped_ ? 1 : 0;
        const auto count = static_cast<uint32_t>(pieces_.size()) - 2 * stamps;
        const VkCommandBuffer *next = pieces_.data();
        for (uint32_t i = 0; i < count; ++i, ++submitted) {
            const bool last = i + 1 == count;
            VkSubmitInfo piece = whole;
            VkTimelineSemaphoreSubmitInfo own = values;
            if (whole.pNext != nullptr) piece.pNext = &own;
            piece.pCommandBuffers = next;
            piece.commandBufferCount = 1 + (i == 0 ? stamps : 0) + (last ? stamps : 0);
            next += piece.commandBufferCount;
            if (i > 0) piece.waitSemaphoreCount = own.waitSemaphoreValueCount = 0;
            if (!last) piece.signalSemaphoreCount = own.signalSemaphoreValueCount = 0;
            const VkResult result = context_.submit(queue_, 1, &piece, last ? fence_ : VK_NULL_HANDLE);
            if (result != VK_SUCCESS) return result;
        }
        return VK_SUCCESS;
    }

    void order(VkCommandBuffer commands) {
        vk_.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0,
                                 nullptr, 0, nullptr, 0, nullptr);
    }

    Context &context_;
    const Functions &vk_;
    Lane lane_;
    VkQueue queue_;
    CommandBuffers own_;
    std::vector<VkCommandBuffer> pieces_; // that are submitted in turn
    bool is_stamped_ = false;             // the first and the last of them hold the timestamps
    bool is_large_ = false;               // those recorded here take much memory
    VkFence fence_ = VK_NULL_HANDLE;
    VkQueryPool timer_ = VK_NULL_HANDLE;
};

Submissions::Submissions(Context &context, bool has_timelines) : context_(context), has_timelines_(has_timelines) {}

Submissions::~Submissions() {
    for (const Owned &submission : pending_)
        if (wait_for(*submission) == VK_SUCCESS && submission->work.done) submission->work.done();
}

void Submissions::require_device() const {
    if (is_lost_) fail(VKATTN_ERROR_DEVICE_LOST, "the device was lost in an earlier call, expected another context");
}

void Submissions::check_device(VkResult result, const char *call) {
    if (result == VK_ERROR_DEVICE_LOST) is_lost_ = true;
    check(result, call);
}

Submissions::Owned Submissions::take(Lane lane) {
    require_device();
    sweep();
    Owned submission = take_free(lane);
    return submission != nullptr ? std::move(submission) : std::make_unique<Submission>(context_, lane);
}

Submissions::Owned Submissions::take_free(Lane lane) {
    const std::lock_guard lock(mutex_);
    std::vector<Owned> &free = free_[static_cast<size_t>(lane)];
    if (free.empty()) return nullptr;
    Owned submission = std::move(free.back());
    free.pop_back();
    return submission;
}

void Submissions::launch(Submission &submission, const vkattn_sync *sync) {
    check_device(submission.submit(sync, has_timelines_), "vkQueueSubmit");
}

void Submissions::launch_and_wait(Submission &submission) {
    launch(submission, nullptr);
    check_waited(wait_for(submission));
}

// A lost device works on nothing. One that cannot be waited for may, and is taken for lost.
VkResult Submissions::wait_for(const Submission &submission, uint64_t timeout_ns) noexcept {
    const VkResult result = submission.wait(timeout_ns);
    if (result == VK_TIMEOUT && timeout_ns != UINT64_MAX) return result;
    if (result != VK_SUCCESS) is_lost_ = true;
    if (result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) context_.abandon();
    return result;
}

// Of what the device is done with. One that cannot be made ready again is destroyed.
void Submissions::give_back(Owned submission) {
    submission->work = {};
    try {
        submission->reset();
        const std::lock_guard lock(mutex_);
        free_[static_cast<size_t>(submission->lane())].push_back(std::move(submission));
    } catch (const std::exception &) {
    }
}

void Submissions::finish(Owned submission) {
    if (submission->work.done) submission->work.done();
    give_back(std::move(submission));
}

bool Submissions::has_pending() {
    const std::lock_guard lock(mutex_);
    return !pending_.empty();
}

// Finishes what the device is done with, unless somebody is at it.
void Submissions::sweep() {
    if (!has_pending()) return;
    const std::unique_lock finishing(finishing_, std::try_to_lock);
    if (!finishing.owns_lock()) return;
    std::list<Owned> done;
    {
        const std::lock_guard lock(mutex_);
        for (auto next = pending_.begin(); next != pending_.end();) {
            const auto submission = next++;
            if ((*submission)->is_done()) done.splice(done.end(), pending_, submission);
        }
    }
    for (Owned &submission : done) finish(std::move(submission));
}

void Submissions::run(const std::function<void(VkCommandBuffer)> &record, uint32_t pieces) {
    Owned submission = take(Lane::kCompute);
    submission->record(record, pieces);
    launch_and_wait(*submission);
    give_back(std::move(submission));
}

void Submissions::run(std::span<const VkCommandBuffer> recorded) {
    Owned submission = take(Lane::kCompute);
    submission->take(recorded, false);
    launch_and_wait(*submission);
    give_back(std::move(submission));
}

double Submissions::run_and_time(const std::function<void(VkCommandBuffer)> &record, uint32_t pieces) {
    return time([&](Submission &submission, bool timed) {
        uint32_t recorded = 0;
        const auto record_and_stamp = [&](VkCommandBuffer commands) {
            if (timed && recorded == 0) submission.stamp(commands, 0);
            record(commands);
            if (++recorded == pieces && timed) submission.stamp(commands, 1);
        };
        submission.record(record_and_stamp, pieces);
    });
}

double Submissions::run_and_time(std::span<const VkCommandBuffer> recorded) {
    return time([&](Submission &submission, bool timed) { submission.take(recorded, timed); });
}

// prepare(submission, whether it is timed)
double Submissions::time(const std::function<void(Submission &, bool)> &prepare) {
    const bool timed = context_.caps().timestamps != 0;
    Owned submission = take(Lane::kCompute);
    if (timed) submission->start_timer();
    prepare(*submission, timed);
    launch_and_wait(*submission);
    double milliseconds = -1.0;
    if (timed)
        if (const VkResult result = submission->read_timer(milliseconds); result == VK_ERROR_DEVICE_LOST)
            check_device(result, "vkGetQueryPoolResults");
    give_back(std::move(submission));
    return milliseconds;
}

void Submissions::submit(Lane lane, Work work, const vkattn_sync *sync) {
    std::list<Owned> own; // made before: nothing may fail once the device has it
    own.push_back(take(lane));
    Submission &submission = *own.front();
    if (work.recorded.empty())
        submission.record(work.record, work.pieces);
    else
        submission.take(work.recorded, false);
    submission.work = std::move(work);
    launch(submission, sync);
    const std::lock_guard lock(mutex_);
    pending_.splice(pending_.end(), own);
}

bool Submissions::wait(uint64_t timeout_ns) {
    const Deadline deadline(timeout_ns);
    if (!lock_until(finishing_, deadline)) return false;
    const std::lock_guard finishing(finishing_, std::adopt_lock);
    std::list<Owned> waited;
    {
        const std::lock_guard lock(mutex_);
        waited.swap(pending_);
    }
    VkResult result = VK_SUCCESS;
    while (!waited.empty()) {
        const VkResult own = wait_for(*waited.front(), deadline.remaining_ns());
        if (own == VK_TIMEOUT && deadline.remaining_ns() != UINT64_MAX) break;
        if (own != VK_SUCCESS)
            result = own;
        else
            finish(std::move(waited.front()));
        waited.pop_front();
    }
    const bool is_done = waited.empty();
    if (!is_done) {
        const std::lock_guard lock(mutex_);
        pending_.splice(pending_.begin(), waited);
    }
    check_waited(result);
    require_device();
    return is_done;
}

} // namespace vkattn
