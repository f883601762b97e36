#include "runtime/ops/peaks.hpp"

#include "runtime/context/kernel_support.hpp"
#include "runtime/context/memory.hpp"
#include "runtime/context/submit.hpp"
#include "runtime/plan.hpp"
#include "runtime/tensor.hpp"
#include "shaders/interface/peak.h"

#include <algorithm>
#include <chrono>
#include <functional>

namespace vkattn {
namespace {

constexpr uint32_t kRuns = 5;
constexpr double kEnoughSeconds = 5e-3; // of a run: launching it is then a small part
constexpr uint32_t kArithmeticTrips = 256;
constexpr uint32_t kMatrixSubgroups = 8; // of a workgroup
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

Step &add_step(Plan &plan, Module module, const gpu::PeakConstants &constants, uint32_t trips, uint32_t groups,
               const Buffer &output) {
    gpu::PeakPush push{};
    push.trips = trips;
    Step &step = plan.add_step(plan.pipeline(module, constants), push);
    step.groups[0] = groups;
    step.written_binding = BINDING_PEAK_OUTPUT;
    bind(plan, step, BINDING_PEAK_OUTPUT, view_of(output, output.bytes()));
    return step;
}

// A micro-kernel of arithmetic alone.
struct Arithmetic {
    Module module;
    gpu::PeakConstants constants;
    double flops_of_group;     // of a trip
    uint64_t numbers_of_group; // that it writes
};

// Of as many workgroups as fill the device.
double flops_per_second(Context &context, const Arithmetic &kernel) {
    const uint32_t most_groups = context.caps().max_workgroup_count[0];
    const uint64_t range = context.caps().max_storage_buffer_range;
    for (uint32_t groups = kFirstGroups;; groups *= 2) {
        const Buffer sums(context, groups * kernel.numbers_of_group * sizeof(float));
        Plan plan(context);
        add_step(plan, kernel.module, kernel.constants, kArithmeticTrips, groups, sums);
        const double seconds = fewest_seconds([&] { return plan.run({}); });
        if (seconds >= kEnoughSeconds || 2 * groups > most_groups || 2 * sums.bytes() > range)
            return kernel.flops_of_group * kArithmeticTrips * groups / seconds;
    }
}

double fma_flops_per_second(Context &context) {
    return flops_per_second(context,
                            {Module::kPeakFma, {}, 2.0 * FMAS_OF_PEAK_TRIP * PEAK_WORKGROUP_SIZE, PEAK_WORKGROUP_SIZE});
}

// Of the shape that the kernels prefer.
double matrix_flops_per_second(Context &context) {
    const DeviceCaps caps = context.judged_caps();
    const vkattn_matrix_shape *shape = largest_matrix_shape(caps, VKATTN_KERNEL_COOPMAT, VKATTN_TYPE_F16);
    if (!is_supported(caps, VKATTN_KERNEL_COOPMAT) ||
        !matrix_obstacle(caps, VKATTN_KERNEL_COOPMAT, VKATTN_TYPE_F16).empty())
        return 0.0;
    const uint32_t subgroups = std::min(kMatrixSubgroups, caps.max_workgroup_invocations / caps.subgroup_size);
    const double products = 1.0 * subgroups * MATRICES_OF_PEAK_TRIP;
    return flops_per_second(context, {Module::kPeakMatrix,
                                      {subgroups * caps.subgroup_size, shape->m, shape->n, shape->k},
                                      2.0 * shape->m * shape->n * shape->k * products,
                                      uint64_t{subgroups} * shape->m * shape->n});
}

double seconds_to_read(Context &context, Module module, const Buffer &input, const Buffer &output, uint32_t groups) {
    Plan plan(context);
    Step &step = add_step(plan, module, {}, kStreamTrips, groups, output);
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

vkattn_peaks measure_peaks(Context &context) {
    return {fma_flops_per_second(context), matrix_flops_per_second(context), bytes_per_second(context)};
}

} // namespace vkattn
