#include "tools/peaks/peaks.hpp"

#include "tools/io/input_error.hpp"
#include "tools/peaks/peak_sizes.h"

#include <vkattn_shaders/peak_fma.spv.hpp>
#include <vkattn_shaders/peak_matrix.spv.hpp>
#include <vkattn_shaders/peak_stream.spv.hpp>
#include <vkattn_shaders/peak_stream_addresses.spv.hpp>
#include <vkattn_shaders/peak_stream_ahead.spv.hpp>
#include <vulkan/vulkan_raii.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <span>

namespace vkattn::tools {
namespace {

constexpr std::uint32_t kRuns = 5;
constexpr double kEnoughSeconds = 5e-3; // of a run: launching it is then a small part
constexpr std::uint32_t kArithmeticIterations = 256;
constexpr std::uint32_t kMatrixSubgroups = 8; // of a workgroup
constexpr std::uint32_t kFirstGroups = 16;
constexpr std::uint32_t kStreamIterations = 64;
constexpr std::uint64_t kStreamBytes = std::uint64_t{256} << 20; // above every cache
constexpr std::uint64_t kLargeStreamBytes = std::uint64_t{2} << 30;
constexpr std::uint64_t kBytesOfGroup = std::uint64_t{kStreamIterations} * PEAK_STREAM_BLOCKS * 16;

struct Handles {
    explicit Handles(const Context &context) {
        check(vkattn_context_handles(context.get(), &instance, &physical_device, &device, &queue, &queue_family));
    }
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical_device = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    std::uint32_t queue_family = 0;
};

// The context's device, which stays the context's.
struct BorrowedDevice {
    explicit BorrowedDevice(const Handles &handles)
        : instance(loader, handles.instance), physical_device(instance, handles.physical_device),
          device(physical_device, handles.device) {}
    ~BorrowedDevice() {
        static_cast<void>(device.release());
        static_cast<void>(instance.release());
    }
    BorrowedDevice(const BorrowedDevice &) = delete;
    BorrowedDevice &operator=(const BorrowedDevice &) = delete;

    vk::raii::Context loader;
    vk::raii::Instance instance;
    vk::raii::PhysicalDevice physical_device;
    vk::raii::Device device;
};

// Runs commands and times them.
class Stopwatch {
  public:
    explicit Stopwatch(const Context &context) : Stopwatch(context, Handles(context)) {}

    const vkattn_device_facts &facts() const { return facts_; }
    const vk::raii::Device &device() const { return borrowed_.device; }

    double fewest_seconds(const std::function<void(const vk::raii::CommandBuffer &)> &record) {
        double fewest = seconds(record); // warms up
        for (std::uint32_t i = 0; i < kRuns; ++i) fewest = std::min(fewest, seconds(record));
        return fewest;
    }

  private:
    Stopwatch(const Context &context, const Handles &handles)
        : facts_(context.facts()), borrowed_(handles), queue_(device(), handles.queue),
          pool_(device(), {vk::CommandPoolCreateFlagBits::eResetCommandBuffer, handles.queue_family}),
          commands_(
              std::move(vk::raii::CommandBuffers(device(), {*pool_, vk::CommandBufferLevel::ePrimary, 1}).front())),
          fence_(device(), vk::FenceCreateInfo()), timestamps_(device(), {{}, vk::QueryType::eTimestamp, 2}) {}

    // By the device's clock where it has one.
    double seconds(const std::function<void(const vk::raii::CommandBuffer &)> &record) {
        commands_.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
        if (facts_.timestamps != 0) {
            commands_.resetQueryPool(*timestamps_, 0, 2);
            commands_.writeTimestamp(vk::PipelineStageFlagBits::eTopOfPipe, *timestamps_, 0);
        }
        record(commands_);
        if (facts_.timestamps != 0) commands_.writeTimestamp(vk::PipelineStageFlagBits::eBottomOfPipe, *timestamps_, 1);
        commands_.end();
        const auto start = std::chrono::steady_clock::now();
        queue_.submit(vk::SubmitInfo({}, {}, *commands_), *fence_);
        while (device().waitForFences(*fence_, VK_TRUE, UINT64_MAX) == vk::Result::eTimeout) {
        }
        const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
        device().resetFences(*fence_);
        const double measured = facts_.timestamps != 0 ? device_seconds() : 0.0;
        return measured > 0.0 ? measured : wall.count(); // coarse ticks can read 0
    }

    double device_seconds() const {
        const auto [result, ticks] =
            timestamps_.getResults<std::uint64_t>(0, 2, 2 * sizeof(std::uint64_t), sizeof(std::uint64_t),
                                                  vk::QueryResultFlagBits::e64 | vk::QueryResultFlagBits::eWait);
        if (result != vk::Result::eSuccess) return 0.0;
        return static_cast<double>(ticks[1] - ticks[0]) * facts_.timestamp_period_ns * 1e-9;
    }

    vkattn_device_facts facts_;
    BorrowedDevice borrowed_;
    vk::raii::Queue queue_;
    vk::raii::CommandPool pool_;
    vk::raii::CommandBuffer commands_;
    vk::raii::Fence fence_;
    vk::raii::QueryPool timestamps_;
};

constexpr vk::DescriptorSetLayoutBinding storage_buffer(std::uint32_t binding) {
    return {binding, vk::DescriptorType::eStorageBuffer, 1, vk::ShaderStageFlagBits::eCompute};
}

constexpr std::array kBindings{storage_buffer(PEAK_INPUT), storage_buffer(PEAK_OUTPUT)};
constexpr vk::PushConstantRange kPush{vk::ShaderStageFlagBits::eCompute, 0, 3 * sizeof(std::uint32_t)};
constexpr vk::DescriptorPoolSize kPoolSize{vk::DescriptorType::eStorageBuffer, 2};

// One of the peak shaders with its buffers.
class Kernel {
  public:
    // constants: WORKGROUP_SIZE, MATRIX_M, MATRIX_N, MATRIX_K of peak_matrix, which needs whole subgroups; else none
    Kernel(const Stopwatch &stopwatch, std::span<const std::uint32_t> code, const Buffer &input, const Buffer &output,
           std::span<const std::uint32_t> constants = {})
        : set_layout_(stopwatch.device(), {{}, kBindings}), layout_(stopwatch.device(), {{}, *set_layout_, kPush}),
          pool_(stopwatch.device(), {vk::DescriptorPoolCreateFlagBits::eFreeDescriptorSet, 1, kPoolSize}),
          set_(std::move(vk::raii::DescriptorSets(stopwatch.device(), {*pool_, *set_layout_}).front())),
          pipeline_(make_pipeline(stopwatch, code, constants)) {
        const std::array<vk::DescriptorBufferInfo, 2> buffers{
            {{input.vulkan(), 0, VK_WHOLE_SIZE}, {output.vulkan(), 0, VK_WHOLE_SIZE}}};
        stopwatch.device().updateDescriptorSets(
            vk::WriteDescriptorSet(*set_, PEAK_INPUT, 0, vk::DescriptorType::eStorageBuffer, {}, buffers), {});
    }

    double fewest_seconds(Stopwatch &stopwatch, std::uint32_t groups, std::uint32_t iterations,
                          std::uint64_t address = 0) const {
        const std::array<std::uint32_t, 3> push{iterations, static_cast<std::uint32_t>(address),
                                                static_cast<std::uint32_t>(address >> 32U)};
        return stopwatch.fewest_seconds([&](const vk::raii::CommandBuffer &commands) {
            commands.bindPipeline(vk::PipelineBindPoint::eCompute, *pipeline_);
            commands.bindDescriptorSets(vk::PipelineBindPoint::eCompute, *layout_, 0, *set_, {});
            commands.pushConstants<std::uint32_t>(*layout_, vk::ShaderStageFlagBits::eCompute, 0, push);
            commands.dispatch(groups, 1, 1);
        });
    }

  private:
    vk::raii::Pipeline make_pipeline(const Stopwatch &stopwatch, std::span<const std::uint32_t> code,
                                     std::span<const std::uint32_t> constants) const {
        std::vector<vk::SpecializationMapEntry> entries;
        for (std::uint32_t id = 0; id < constants.size(); ++id)
            entries.emplace_back(id, id * static_cast<std::uint32_t>(sizeof(std::uint32_t)), sizeof(std::uint32_t));
        const vk::SpecializationInfo specialisation(static_cast<std::uint32_t>(entries.size()), entries.data(),
                                                    constants.size_bytes(), constants.data());
        const vk::raii::ShaderModule shader(stopwatch.device(), {{}, code.size_bytes(), code.data()});
        vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *shader, "main",
                                                &specialisation);
        const vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo size(stopwatch.facts().subgroup_size);
        if (!constants.empty() && stopwatch.facts().subgroup_size_control != 0) {
            stage.flags = vk::PipelineShaderStageCreateFlagBits::eRequireFullSubgroups;
            stage.pNext = &size;
        }
        return {stopwatch.device(), nullptr, vk::ComputePipelineCreateInfo({}, stage, *layout_)};
    }

    vk::raii::DescriptorSetLayout set_layout_;
    vk::raii::PipelineLayout layout_;
    vk::raii::DescriptorPool pool_;
    vk::raii::DescriptorSet set_;
    vk::raii::Pipeline pipeline_;
};

// A shader of arithmetic alone.
struct Arithmetic {
    std::span<const std::uint32_t> code;
    std::vector<std::uint32_t> constants;
    double flops_of_group;          // in one iteration
    std::uint64_t numbers_of_group; // that it writes
};

// Of as many workgroups as fill the device.
double flops_per_second(const Context &context, Stopwatch &stopwatch, const Arithmetic &shader) {
    const vkattn_device_facts &facts = stopwatch.facts();
    for (std::uint32_t groups = kFirstGroups;; groups *= 2) {
        const std::uint64_t bytes = groups * shader.numbers_of_group * sizeof(float);
        const Buffer sums = context.buffer(bytes);
        const Kernel kernel(stopwatch, shader.code, sums, sums, shader.constants);
        const double seconds = kernel.fewest_seconds(stopwatch, groups, kArithmeticIterations);
        if (seconds >= kEnoughSeconds || 2 * groups > facts.max_workgroup_count[0] ||
            2 * bytes > facts.max_storage_buffer_range)
            return shader.flops_of_group * kArithmeticIterations * groups / seconds;
    }
}

double fma_flops_per_second(const Context &context, Stopwatch &stopwatch) {
    return flops_per_second(context, stopwatch,
                            {peak_fma_spv, {}, 2.0 * PEAK_FMAS * PEAK_FMA_WORKGROUP_SIZE, PEAK_FMA_WORKGROUP_SIZE});
}

// The largest of f16; m = 0: none.
vkattn_matrix_shape largest_shape(const vkattn_device_facts &facts) {
    const auto volume = [](const vkattn_matrix_shape &shape) { return std::uint64_t{shape.m} * shape.n * shape.k; };
    vkattn_matrix_shape largest{};
    for (const vkattn_matrix_shape &shape : std::span(facts.matrix_shapes, facts.matrix_shape_count))
        if (shape.type == VKATTN_TYPE_F16 && volume(shape) > volume(largest)) largest = shape;
    return largest;
}

double matrix_flops_per_second(const Context &context, Stopwatch &stopwatch) {
    const vkattn_device_facts &facts = stopwatch.facts();
    const bool supported = std::ranges::any_of(std::span(facts.kernels, facts.kernel_count), [](const auto &each) {
        return each.kernel == VKATTN_KERNEL_COOPMAT && each.supported != 0;
    });
    const vkattn_matrix_shape shape = largest_shape(facts);
    const std::span<const std::uint32_t> code = peak_matrix_spv; // empty where the GLSL compiler was too old
    if (!supported || shape.m == 0 || code.empty()) return 0.0;
    const std::uint32_t subgroups = std::min(kMatrixSubgroups, facts.max_workgroup_invocations / facts.subgroup_size);
    return flops_per_second(context, stopwatch,
                            {code,
                             {subgroups * facts.subgroup_size, shape.m, shape.n, shape.k},
                             2.0 * shape.m * shape.n * shape.k * subgroups * PEAK_MATRIX_PRODUCTS,
                             std::uint64_t{subgroups} * shape.m * shape.n});
}

// The best of several ways, for none is the fastest everywhere.
double bytes_per_second(const Context &context, Stopwatch &stopwatch, std::uint64_t wanted_bytes) {
    const vkattn_device_facts &facts = stopwatch.facts();
    const std::uint64_t room =
        std::min({wanted_bytes, facts.max_storage_buffer_range, facts.device_memory_bytes / 8, // two are taken
                  facts.max_workgroup_count[0] * kBytesOfGroup});
    const auto groups = static_cast<std::uint32_t>(std::max<std::uint64_t>(room / kBytesOfGroup, 1));
    const std::uint64_t bytes = groups * kBytesOfGroup;
    const Buffer input = context.buffer(bytes), output = context.buffer(bytes);
    double seconds =
        Kernel(stopwatch, peak_stream_spv, input, output).fewest_seconds(stopwatch, groups, kStreamIterations);
    if (facts.max_workgroup_invocations >= PEAK_AHEAD_WORKGROUP_SIZE)
        seconds = std::min(seconds, Kernel(stopwatch, peak_stream_ahead_spv, input, output)
                                        .fewest_seconds(stopwatch, groups, kStreamIterations));
    if (facts.buffers_have_addresses != 0)
        seconds = std::min(seconds, Kernel(stopwatch, peak_stream_addresses_spv, input, output)
                                        .fewest_seconds(stopwatch, groups, kStreamIterations,
                                                        stopwatch.device().getBufferAddress({input.vulkan()})));
    const double copying = stopwatch.fewest_seconds([&](const vk::raii::CommandBuffer &commands) {
        commands.copyBuffer(input.vulkan(), output.vulkan(), vk::BufferCopy(0, 0, bytes));
    });
    return static_cast<double>(bytes) / std::min(seconds, copying / 2); // a copy reads and writes
}

// Of as many bytes as take long enough.
double bytes_per_second(const Context &context, Stopwatch &stopwatch) {
    const double rate = bytes_per_second(context, stopwatch, kStreamBytes);
    if (static_cast<double>(kStreamBytes) / rate >= kEnoughSeconds) return rate;
    return std::max(rate, bytes_per_second(context, stopwatch, kLargeStreamBytes));
}

} // namespace

Peaks measure_peaks(const Context &context) {
    try {
        Stopwatch stopwatch(context);
        return {fma_flops_per_second(context, stopwatch), matrix_flops_per_second(context, stopwatch),
                bytes_per_second(context, stopwatch)};
    } catch (const vk::Error &error) {
        throw InputError("--roofline", std::string(error.what()) + ", expected the driver to run the shaders of peaks");
    }
}

} // namespace vkattn::tools
