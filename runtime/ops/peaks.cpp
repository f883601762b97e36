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
constexpr uint64_t kBytesOfGroup = uint64_t{kStreamTrips} * PEAK_BLOCKS_OF_TRIP * 16;

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

View view_of(const Buffer &buffer, uint64_t bytes) {
    return {contiguous(VKATTN_TYPE_F32, {1, 1, 1, bytes / sizeof(float)}),
            {Source::Kind::kOwned, VKATTN_ROLE_WORKSPACE, buffer.handle(), 0}};
}

Step &add_step(Plan &plan, Module module, uint32_t trips, uint32_t groups, const Buffer &output) {
    gpu::PeakPush push{};
    push.trips = trips;
    Step &step = plan.add_step(plan.pipeline(module, gpu::PeakConstants{}), push);
    step.groups[0] = groups;
    step.written_binding = BINDING_PEAK_OUTPUT;
    bind(plan, step, BINDING_PEAK_OUTPUT, view_of(output, uint64_t{groups} * PEAK_WORKGROUP_SIZE * sizeof(float)));
    return step;
}

double flops_per_second(Context &context) {
    const uint32_t most_groups = context.caps().max_workgroup_count[0];
    const uint64_t range = context.caps().max_storage_buffer_range;
    for (uint32_t groups = kFirstGroups;; groups *= 2) {
        const uint64_t invocations = uint64_t{groups} * PEAK_WORKGROUP_SIZE;
        const Buffer sums(context, invocations * sizeof(float));
        Plan plan(context);
        add_step(plan, Module::kPeakFma, kFmaTrips, groups, sums);
        const double seconds = fewest_seconds([&] { return plan.run({}); });
        if (seconds >= kEnoughSeconds || 2 * groups > most_groups || 2 * sums.bytes() > range)
            return 2.0 * kFmaTrips * FMAS_OF_PEAK_TRIP * static_cast<double>(invocations) / seconds;
    }
}

double seconds_to_read(Context &context, Module module, const Buffer &input, const Buffer &output, uint32_t groups) {
    Plan plan(context);
    Step &step = add_step(plan, module, kStreamTrips, groups, output);
    const View view = view_of(input, input.bytes());
    bind(plan, step, BINDING_PEAK_INPUT, view);
    constexpr uint32_t kAddressWord = offsetof(gpu::PeakPush, input_address) / sizeof(uint32_t);
    if (module == Module::kPeakStreamAddresses) pass_address(plan, step.addresses[0], kAddressWord, view);
    return fewest_seconds([&] { return plan.run({}); });
}

double seconds_to_copy(Context &context, const Buffer &from, const Buffer &to) {
    return fewest_seconds([&] {
        return submit_and_time(context, [&](VkCommandBuffer commands) {
            const VkBufferCopy region{0, 0, from.bytes()};
            context.vk().vkCmdCopyBuffer(commands, from.handle(), to.handle(), 1, &region);
        });
    });
}

// The best of several ways, for none is the fastest everywhere.
double bytes_per_second(Context &context) {
    const DeviceCaps &caps = context.caps();
    const uint64_t range = caps.max_storage_buffer_range - caps.min_storage_buffer_offset_alignment;
    const uint64_t room = std::min({kStreamBytes, range, caps.device_memory_bytes / 8, // of which two are taken
                                    caps.max_workgroup_count[0] * kBytesOfGroup});
    const auto groups = static_cast<uint32_t>(std::max<uint64_t>(room / kBytesOfGroup, 1));
    const Buffer input(context, groups * kBytesOfGroup), output(context, input.bytes());
    const auto bytes = static_cast<double>(input.bytes());
    double best = bytes / seconds_to_read(context, Module::kPeakStream, input, output, groups);
    if (caps.buffers_have_addresses != 0)
        best = std::max(best, bytes / seconds_to_read(context, Module::kPeakStreamAddresses, input, output, groups));
    return std::max(best, 2.0 * bytes / seconds_to_copy(context, input, output)); // which reads and writes
}

} // namespace

vkattn_peaks measure_peaks(Context &context) { return {flops_per_second(context), bytes_per_second(context)}; }

} // namespace vkattn
