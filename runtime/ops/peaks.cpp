#include "runtime/ops/peaks.hpp"

#include "runtime/context/memory.hpp"
#include "runtime/context/submit.hpp"
#include "runtime/plan.hpp"
#include "runtime/tensor.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

namespace vkattn {
namespace {

constexpr uint32_t kRuns = 5;
constexpr double kEnoughSeconds = 5e-3; // of a run: launching it is then a small part
constexpr uint32_t kFmaTrips = 256;
constexpr uint32_t kFirstGroups = 16;
constexpr uint32_t kStreamTrips = 64;
constexpr uint64_t kStreamBytes = uint64_t{256} << 20; // above every cache
constexpr uint64_t kBytesOfGroup = uint64_t{kStreamTrips} * PEAK_WORKGROUP_SIZE * 16;

// By the device's clock where it has one.
double seconds_of(const std::function<double()> &run) {
    const auto start = std::chrono::steady_clock::now();
    const double milliseconds = run();
    if (milliseconds > 0.0) return milliseconds / 1e3;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double fewest_seconds(const std::function<double()> &run) {
    double fewest = seconds_of(run); // warms up
    for (uint32_t i = 0; i < kRuns; ++i) fewest = std::min(fewest, seconds_of(run));
    return fewest;
}

void bind_buffer(Plan &plan, Step &step, uint32_t binding, const Buffer &buffer, uint64_t bytes) {
    const vkattn_tensor tensor = contiguous(VKATTN_TYPE_F32, {1, 1, 1, bytes / sizeof(float)});
    bind(plan, step, binding, {tensor, {Source::Kind::kOwned, VKATTN_ROLE_WORKSPACE, buffer.handle(), 0}});
}

double flops_per_second(Context &context) {
    const uint32_t most_groups = context.caps().max_workgroup_count[0];
    const uint64_t range = context.caps().max_storage_buffer_range;
    for (uint32_t groups = kFirstGroups;; groups *= 2) {
        const uint64_t invocations = uint64_t{groups} * PEAK_WORKGROUP_SIZE;
        const Buffer sums(context, invocations * sizeof(float));
        Plan plan(context);
        gpu::PeakPush push{};
        push.trips = kFmaTrips;
        Step &step = plan.add_step(plan.pipeline(Module::kPeakFma, gpu::PeakConstants{}), push);
        step.groups[0] = groups;
        step.written_binding = BINDING_PEAK_OUTPUT;
        bind_buffer(plan, step, BINDING_PEAK_OUTPUT, sums, sums.bytes());
        const double seconds = fewest_seconds([&] { return plan.run({}); });
        if (seconds >= kEnoughSeconds || 2 * groups > most_groups || 2 * sums.bytes() > range)
            return 2.0 * kFmaTrips * FMAS_OF_PEAK_TRIP * static_cast<double>(invocations) / seconds;
    }
}

// Of a kernel that reads, or of a copy by the driver, which reads and writes: what a CPU driver does best.
double bytes_per_second(Context &context) {
    const DeviceCaps &caps = context.caps();
    const uint64_t range = caps.max_storage_buffer_range - caps.min_storage_buffer_offset_alignment;
    const uint64_t room = std::min({kStreamBytes, range, caps.device_memory_bytes / 8, // of which two are taken
                                    caps.max_workgroup_count[0] * kBytesOfGroup});
    const auto groups = static_cast<uint32_t>(std::max<uint64_t>(room / kBytesOfGroup, 1));
    const uint64_t bytes = groups * kBytesOfGroup;
    const Buffer input(context, bytes), copy(context, bytes);
    Plan plan(context);
    gpu::PeakPush push{};
    push.trips = kStreamTrips;
    Step &step = plan.add_step(plan.pipeline(Module::kPeakStream, gpu::PeakConstants{}), push);
    step.groups[0] = groups;
    step.written_binding = BINDING_PEAK_OUTPUT;
    bind_buffer(plan, step, BINDING_PEAK_INPUT, input, bytes);
    bind_buffer(plan, step, BINDING_PEAK_OUTPUT, copy, uint64_t{groups} * PEAK_WORKGROUP_SIZE * sizeof(uint32_t));
    const double reading = fewest_seconds([&] { return plan.run({}); });
    const double copying = fewest_seconds([&] {
        return submit_and_time(context, [&](VkCommandBuffer commands) {
            const VkBufferCopy region{0, 0, bytes};
            context.vk().vkCmdCopyBuffer(commands, input.handle(), copy.handle(), 1, &region);
        });
    });
    return static_cast<double>(bytes) * std::max(1.0 / reading, 2.0 / copying);
}

} // namespace

vkattn_peaks measure_peaks(Context &context) { return {flops_per_second(context), bytes_per_second(context)}; }

} // namespace vkattn
