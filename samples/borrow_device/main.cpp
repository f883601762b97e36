// An application with a device, buffers and a timeline of its own: its compute pass writes Q, K and V, vkattn records
// in the middle of its command buffer, its next pass reads the output. Frames wait for each other on the device; the
// CPU waits once.
#include <vkattn/vkattn.hpp>
#include <vkattn_shaders/sample_fill.spv.hpp>
#include <vkattn_shaders/sample_read.spv.hpp>
#include <vulkan/vulkan_raii.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

namespace {

constexpr std::uint32_t kLen = 96, kHeadDim = 64, kValues = kLen * kHeadDim, kFrames = 5;
constexpr std::array<std::uint32_t, 2> kSizes = {kHeadDim, kValues}; // push constants of the application's passes

struct Application {
    Application() {
        const vk::ApplicationInfo application("borrow_device", 1, "", 1, VK_API_VERSION_1_2);
        instance = vk::raii::Instance(loader, {{}, &application});
        for (vk::raii::PhysicalDevice &found : vk::raii::PhysicalDevices(instance))
            if (!device_is_chosen() && found.getProperties().apiVersion >= VK_API_VERSION_1_2) consider(found);
        if (!device_is_chosen()) throw std::runtime_error("no device has Vulkan 1.2, compute and timeline semaphores");
        create_device();
    }

    bool device_is_chosen() const { return static_cast<bool>(*physical_device); }

    void consider(vk::raii::PhysicalDevice &candidate) {
        const auto features =
            candidate.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceTimelineSemaphoreFeatures>();
        if (!features.get<vk::PhysicalDeviceTimelineSemaphoreFeatures>().timelineSemaphore) return;
        const std::vector<vk::QueueFamilyProperties> families = candidate.getQueueFamilyProperties();
        for (queue_family = 0; queue_family < families.size(); ++queue_family)
            if (families[queue_family].queueFlags & vk::QueueFlagBits::eCompute) break;
        if (queue_family < families.size()) physical_device = std::move(candidate);
    }

    void create_device() {
        // what helps vkattn, of what the device has
        std::uint32_t count = 0;
        vkattn_wanted_extensions(&count, nullptr);
        std::vector<const char *> wanted(count);
        vkattn_wanted_extensions(&count, wanted.data());
        for (const vk::ExtensionProperties &there : physical_device.enumerateDeviceExtensionProperties())
            for (const char *name : wanted)
                if (std::string_view(name) == there.extensionName) extensions.push_back(name);
        const float priority = 1.0f;
        const vk::DeviceQueueCreateInfo queues({}, queue_family, 1, &priority);
        const vk::PhysicalDeviceTimelineSemaphoreFeatures timelines(true);
        device = vk::raii::Device(physical_device, {{}, queues, {}, extensions, nullptr, &timelines});
        queue = device.getQueue(queue_family, 0);
    }

    vkattn_context_info context_info() const {
        vkattn_context_info info{};
        info.instance = *instance;
        info.physical_device = *physical_device;
        info.device = *device;
        info.queue = *queue;
        info.queue_family = queue_family;
        info.api_version = VK_API_VERSION_1_2;
        info.enabled_extensions = extensions.data();
        info.enabled_extension_count = static_cast<std::uint32_t>(extensions.size());
        return info;
    }

    vk::raii::Context loader;
    vk::raii::Instance instance = nullptr;
    vk::raii::PhysicalDevice physical_device = nullptr;
    std::uint32_t queue_family = 0;
    std::vector<const char *> extensions;
    vk::raii::Device device = nullptr;
    vk::raii::Queue queue = nullptr;
};

struct Storage {
    Storage(const Application &app, vk::DeviceSize bytes) : buffer(app.device, create_info(bytes)) {
        const vk::MemoryRequirements needs = buffer.getMemoryRequirements();
        const auto wanted = vk::MemoryPropertyFlagBits::eHostVisible | vk::MemoryPropertyFlagBits::eHostCoherent;
        const vk::PhysicalDeviceMemoryProperties types = app.physical_device.getMemoryProperties();
        std::uint32_t type = 0;
        while ((needs.memoryTypeBits >> type & 1) == 0 || (types.memoryTypes[type].propertyFlags & wanted) != wanted)
            ++type;
        memory = vk::raii::DeviceMemory(app.device, {needs.size, type});
        buffer.bindMemory(*memory, 0);
        mapped = memory.mapMemory(0, bytes);
        std::fill_n(static_cast<std::byte *>(mapped), bytes, std::byte{0});
    }
    static vk::BufferCreateInfo create_info(vk::DeviceSize bytes) {
        return {{}, bytes, vk::BufferUsageFlagBits::eStorageBuffer};
    }

    vk::raii::Buffer buffer;
    vk::raii::DeviceMemory memory = nullptr;
    void *mapped = nullptr;
};

// A compute pass of the application's own.
struct Pass {
    Pass(const Application &app, std::span<const std::uint32_t> code, const std::vector<const Storage *> &buffers) {
        std::vector<vk::DescriptorSetLayoutBinding> bindings;
        for (std::uint32_t i = 0; i < buffers.size(); ++i)
            bindings.emplace_back(i, vk::DescriptorType::eStorageBuffer, 1, vk::ShaderStageFlagBits::eCompute);
        set_layout = vk::raii::DescriptorSetLayout(app.device, {{}, bindings});
        const vk::PushConstantRange push(vk::ShaderStageFlagBits::eCompute, 0, sizeof kSizes);
        layout = vk::raii::PipelineLayout(app.device, {{}, *set_layout, push});
        const vk::raii::ShaderModule shader(app.device, {{}, code.size_bytes(), code.data()});
        const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *shader, "main");
        pipeline = vk::raii::Pipeline(app.device, nullptr, vk::ComputePipelineCreateInfo({}, stage, *layout));
        const vk::DescriptorPoolSize size(vk::DescriptorType::eStorageBuffer,
                                          static_cast<std::uint32_t>(buffers.size()));
        pool = vk::raii::DescriptorPool(app.device, {vk::DescriptorPoolCreateFlagBits::eFreeDescriptorSet, 1, size});
        set = std::move(vk::raii::DescriptorSets(app.device, {*pool, *set_layout}).front());
        for (std::uint32_t i = 0; i < buffers.size(); ++i) {
            const vk::DescriptorBufferInfo whole(*buffers[i]->buffer, 0, VK_WHOLE_SIZE);
            app.device.updateDescriptorSets(
                vk::WriteDescriptorSet(*set, i, 0, vk::DescriptorType::eStorageBuffer, {}, whole), {});
        }
    }

    void record(const vk::raii::CommandBuffer &commands, std::uint32_t groups) const {
        commands.bindPipeline(vk::PipelineBindPoint::eCompute, *pipeline);
        commands.bindDescriptorSets(vk::PipelineBindPoint::eCompute, *layout, 0, *set, {});
        commands.pushConstants<std::uint32_t>(*layout, vk::ShaderStageFlagBits::eCompute, 0, kSizes);
        commands.dispatch(groups, 1, 1);
    }

    vk::raii::DescriptorSetLayout set_layout = nullptr;
    vk::raii::PipelineLayout layout = nullptr;
    vk::raii::Pipeline pipeline = nullptr;
    vk::raii::DescriptorPool pool = nullptr;
    vk::raii::DescriptorSet set = nullptr;
};

vkattn::Plan make_plan(const vkattn::Context &context) {
    vkattn_attention_desc desc{};
    desc.query = desc.key = desc.value = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, kLen, kHeadDim});
    return context.attention_plan(desc);
}

// The descriptor sets that recording takes, where it takes any.
vk::raii::DescriptorPool make_pool(const Application &app, const vkattn_requirements &needs) {
    if (needs.descriptor_sets == 0) return nullptr;
    std::vector<vk::DescriptorPoolSize> sizes = {
        {vk::DescriptorType::eStorageBuffer, needs.storage_buffer_descriptors}};
    if (needs.uniform_buffer_descriptors > 0)
        sizes.emplace_back(vk::DescriptorType::eUniformBuffer, needs.uniform_buffer_descriptors);
    return {app.device, {{}, needs.descriptor_sets, sizes}};
}

// What was written in the pass before is there in the next.
void barrier(const vk::raii::CommandBuffer &commands) {
    const vk::MemoryBarrier written(vk::AccessFlagBits::eShaderWrite,
                                    vk::AccessFlagBits::eShaderRead | vk::AccessFlagBits::eShaderWrite);
    commands.pipelineBarrier(vk::PipelineStageFlagBits::eComputeShader, vk::PipelineStageFlagBits::eComputeShader, {},
                             written, {}, {});
}

// Submits so many frames, each waiting for the one before on the device, and waits for the last.
void run_frames(const Application &app, const vk::raii::CommandBuffer &commands) {
    const vk::SemaphoreTypeCreateInfo type(vk::SemaphoreType::eTimeline, 0);
    const vk::raii::Semaphore timeline(app.device, {{}, &type});
    const vk::Semaphore semaphore = *timeline;
    for (std::uint64_t frame = 0; frame < kFrames; ++frame) {
        const std::uint64_t done = frame + 1;
        const vk::TimelineSemaphoreSubmitInfo values(frame, done);
        const vk::PipelineStageFlags stage = vk::PipelineStageFlagBits::eComputeShader;
        app.queue.submit(vk::SubmitInfo(semaphore, stage, *commands, semaphore, &values));
    }
    const std::uint64_t last = kFrames;
    if (app.device.waitSemaphores({{}, semaphore, last}, 60'000'000'000) != vk::Result::eSuccess)
        throw std::runtime_error("the frames took more than a minute");
}

} // namespace

int main() try {
    const Application app;
    const vkattn::Context context(app.context_info());
    const vkattn::Plan plan = make_plan(context);
    const vkattn_requirements needs = plan.requirements();

    const vk::DeviceSize bytes = kValues * sizeof(float);
    const Storage query(app, bytes), key(app, bytes), value(app, bytes), output(app, bytes);
    const Storage frame(app, (1 + kFrames) * sizeof(float)), workspace(app, needs.workspace_bytes + 16);
    const Pass fill(app, vkattn::sample_fill_spv, {&frame, &query, &key, &value});
    const Pass read(app, vkattn::sample_read_spv, {&frame, &output});
    const vk::raii::DescriptorPool pool = make_pool(app, needs);

    const vk::raii::CommandPool command_pool(app.device, {{}, app.queue_family});
    const vk::raii::CommandBuffer commands =
        std::move(vk::raii::CommandBuffers(app.device, {*command_pool, vk::CommandBufferLevel::ePrimary, 1}).front());
    std::vector<vkattn_binding> bindings = {vkattn::bind(VKATTN_ROLE_QUERY, *query.buffer, 0, bytes),
                                            vkattn::bind(VKATTN_ROLE_KEY, *key.buffer, 0, bytes),
                                            vkattn::bind(VKATTN_ROLE_VALUE, *value.buffer, 0, bytes),
                                            vkattn::bind(VKATTN_ROLE_OUTPUT, *output.buffer, 0, bytes)};
    if (needs.workspace_bytes > 0)
        bindings.push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, *workspace.buffer, 0, needs.workspace_bytes));
    commands.begin({vk::CommandBufferUsageFlagBits::eSimultaneousUse});
    fill.record(commands, (kValues + 63) / 64);
    barrier(commands);
    plan.record(*commands, bindings, *pool);
    barrier(commands);
    read.record(commands, 1);
    const vk::MemoryBarrier to_host(vk::AccessFlagBits::eShaderWrite, vk::AccessFlagBits::eHostRead);
    commands.pipelineBarrier(vk::PipelineStageFlagBits::eComputeShader, vk::PipelineStageFlagBits::eHost, {}, to_host,
                             {}, {});
    commands.end();
    run_frames(app, commands);

    const float *results = static_cast<const float *>(frame.mapped) + 1;
    bool right = true;
    for (std::uint32_t i = 0; i < kFrames; ++i) {
        const float expected = (kLen - 1) / 2.0f + static_cast<float>(i);
        right = right && std::abs(results[i] - expected) < 1e-3f;
        std::printf("frame %u: the last query averages the values to %g, expected %g\n", i,
                    static_cast<double>(results[i]), static_cast<double>(expected));
    }
    return right ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
