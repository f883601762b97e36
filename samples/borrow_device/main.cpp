// An application with a device, buffers and compute passes of its own. In each frame its first pass writes Q, K and V;
// vkattn appends K and V to caches of q8_0 and attends; the application's last pass reads the output. Two frames are in
// flight at once. A timeline semaphore orders the passes and vkattn's plans on the device; the host waits only for the
// frame whose buffers it uses again. Where VMA is found, vkattn's device memory comes from it.
#include "application.hpp"
#ifdef BORROW_DEVICE_HAS_VMA
#include "vma_memory.hpp"
#endif

#include <vkattn/vkattn.hpp>
#include <vkattn_shaders/sample_fill.spv.hpp>
#include <vkattn_shaders/sample_read.spv.hpp>

#include <array>
#include <cmath>
#include <cstdio>

namespace {

constexpr std::uint32_t kLen = 96, kHeadDim = 64, kValues = kLen * kHeadDim, kFrames = 6, kInFlight = 2;
constexpr vk::DeviceSize kBytes = kValues * sizeof(float);
// What the timeline reaches in each frame: the first pass is done, attention is, the last pass is.
constexpr std::uint64_t kFilled = 1, kAttended = 2, kDone = 3;
constexpr std::uint64_t point(std::uint32_t frame, std::uint64_t what) { return frame * kDone + what; }

vkattn_context_info context_info(const Application &app) {
    vkattn_context_info info{};
    info.get_instance_proc_addr = vkGetInstanceProcAddr; // volk's
    info.instance = *app.instance;
    info.physical_device = *app.physical_device;
    info.device = *app.device;
    info.queue = *app.queue;
    info.queue_family = app.queue_family;
    info.api_version = VK_API_VERSION_1_2;
    info.enabled_extensions = app.extensions.data();
    info.enabled_extension_count = static_cast<std::uint32_t>(app.extensions.size());
    info.debug_labels = 1; // where the instance has VK_EXT_debug_utils
    return info;
}

// Made once; every frame submits them with its own buffers.
struct Plans {
    explicit Plans(const vkattn::Context &context) {
        vkattn_kv_append_desc append_rows{};
        append_rows.source = rows;
        append_rows.cache = cache;
        append = context.kv_append_plan(append_rows);
        vkattn_attention_desc attention{};
        attention.query = attention.output = rows;
        attention.key = attention.value = cache;
        attend = context.attention_plan(attention);
    }

    vkattn_tensor rows = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, kLen, kHeadDim});
    vkattn_tensor cache = vkattn::tensor(VKATTN_TYPE_Q8_0, {1, 1, kLen, kHeadDim});
    vkattn::Plan append, attend;
};

class Frame {
  public:
    Frame(const Application &app, const vkattn::Context &context, const Plans &plans, const Storage &results)
        : app_(app), plans_(plans), query_(app, kBytes), key_(app, kBytes), value_(app, kBytes), output_(app, kBytes),
          key_cache_(context.buffer(plans.cache)), value_cache_(context.buffer(plans.cache)),
          fill_(app, "application: fill", vkattn::sample_fill_spv, std::array{&query_, &key_, &value_}),
          read_(app, "application: read", vkattn::sample_read_spv, std::array<const Storage *, 2>{&results, &output_}),
          commands_(app.device, {*app.command_pool, vk::CommandBufferLevel::ePrimary, 2}) {}

    // The device must be done with the frame that was submitted here before.
    void submit(std::uint32_t frame, vk::Semaphore timeline) {
        const std::array constants = {kHeadDim, kValues, frame};
        run_pass(commands_[0], fill_, constants, (kValues + 63) / 64, timeline, 0, point(frame, kFilled));
        submit_attention(frame, timeline);
        run_pass(commands_[1], read_, constants, 1, timeline, point(frame, kAttended), point(frame, kDone));
    }

  private:
    // Plans in a row need no semaphores between each other: the first waits for the application, the last tells it.
    void submit_attention(std::uint32_t frame, VkSemaphore timeline) const {
        const vkattn_semaphore filled{timeline, point(frame, kFilled)}, attended{timeline, point(frame, kAttended)};
        plans_.append.submit(
            {vkattn::bind(VKATTN_ROLE_SOURCE, *key_.buffer, 0, kBytes), vkattn::bind(VKATTN_ROLE_CACHE, key_cache_)},
            vkattn::sync({&filled, 1}, {}));
        plans_.append.submit({vkattn::bind(VKATTN_ROLE_SOURCE, *value_.buffer, 0, kBytes),
                              vkattn::bind(VKATTN_ROLE_CACHE, value_cache_)});
        plans_.attend.submit({vkattn::bind(VKATTN_ROLE_QUERY, *query_.buffer, 0, kBytes),
                              vkattn::bind(VKATTN_ROLE_KEY, key_cache_), vkattn::bind(VKATTN_ROLE_VALUE, value_cache_),
                              vkattn::bind(VKATTN_ROLE_OUTPUT, *output_.buffer, 0, kBytes)},
                             vkattn::sync({}, {&attended, 1}));
    }

    void run_pass(const vk::raii::CommandBuffer &commands, const Pass &pass,
                  std::span<const std::uint32_t, 3> constants, std::uint32_t groups, vk::Semaphore timeline,
                  std::uint64_t wait, std::uint64_t signal) const {
        commands.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit});
        pass.record(commands, constants, groups);
        const vk::MemoryBarrier to_host(vk::AccessFlagBits::eShaderWrite, vk::AccessFlagBits::eHostRead);
        commands.pipelineBarrier(vk::PipelineStageFlagBits::eComputeShader, vk::PipelineStageFlagBits::eHost, {},
                                 to_host, {}, {});
        commands.end();
        const vk::TimelineSemaphoreSubmitInfo values(wait, signal);
        const vk::PipelineStageFlags stage = vk::PipelineStageFlagBits::eComputeShader;
        app_.queue.submit(vk::SubmitInfo(timeline, stage, *commands, timeline, &values));
    }

    const Application &app_;
    const Plans &plans_;
    Storage query_, key_, value_, output_;
    vkattn::Buffer key_cache_, value_cache_;
    Pass fill_, read_;
    vk::raii::CommandBuffers commands_;
};

void wait_for(const Application &app, vk::Semaphore timeline, std::uint64_t value) {
    if (app.device.waitSemaphores({{}, timeline, value}, 60'000'000'000) != vk::Result::eSuccess)
        throw std::runtime_error("a frame took more than a minute");
}

// Whether the last query of every frame got the average of its values.
bool check(const Storage &results) {
    bool right = true;
    for (std::uint32_t i = 0; i < kFrames; ++i) {
        const float expected = (kLen - 1) / 2.0f + static_cast<float>(i);
        right = right && std::abs(results.mapped[i] - expected) < 0.05f; // q8_0 keeps 127 steps, scaled in f16
        std::printf("frame %u: the last query averages the values to %.2f, expected %.1f\n", i,
                    static_cast<double>(results.mapped[i]), static_cast<double>(expected));
    }
    return right;
}

} // namespace

int main() try {
    const Application app;
    vkattn_context_info info = context_info(app);
#ifdef BORROW_DEVICE_HAS_VMA
    const VmaMemory memory(app);
    info.memory = &memory.callbacks();
#endif
    const vkattn::Context context(info);
    const Plans plans(context);
    const Storage results(app, kFrames * sizeof(float));
    Frame first(app, context, plans, results), second(app, context, plans, results);
    const std::array<Frame *, kInFlight> frames = {&first, &second};

    const vk::SemaphoreTypeCreateInfo type(vk::SemaphoreType::eTimeline, 0);
    const vk::raii::Semaphore timeline(app.device, {{}, &type});
    for (std::uint32_t frame = 0; frame < kFrames; ++frame) {
        if (frame >= kInFlight) wait_for(app, *timeline, point(frame - kInFlight, kDone));
        frames[frame % kInFlight]->submit(frame, *timeline);
    }
    wait_for(app, *timeline, point(kFrames - 1, kDone));
    app.device.waitIdle(); // before the timeline goes: a thread of Mesa 22.3's still writes into it
#ifdef BORROW_DEVICE_HAS_VMA
    memory.print_statistics();
#endif
    return check(results) ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
