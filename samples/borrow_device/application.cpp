#define VOLK_IMPLEMENTATION
#include "application.hpp"

#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace {

PFN_vkGetInstanceProcAddr load_vulkan() {
    if (volkInitialize() != VK_SUCCESS) throw std::runtime_error("no Vulkan loader");
    return vkGetInstanceProcAddr; // volk's
}

bool contains(const std::vector<vk::ExtensionProperties> &extensions, std::string_view name) {
    return std::ranges::any_of(extensions, [&](const auto &extension) { return name == extension.extensionName; });
}

} // namespace

Application::Application() : loader(load_vulkan()) {
    create_instance();
    choose_device();
    create_device();
}

void Application::create_instance() {
    const vk::ApplicationInfo application("borrow_device", 1, "", 1, VK_API_VERSION_1_2);
    has_labels = contains(loader.enumerateInstanceExtensionProperties(), VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    std::vector<const char *> wanted;
    if (has_labels) wanted.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    instance = vk::raii::Instance(loader, {{}, &application, {}, wanted});
}

void Application::choose_device() {
    for (vk::raii::PhysicalDevice &found : vk::raii::PhysicalDevices(instance)) {
        if (found.getProperties().apiVersion < VK_API_VERSION_1_2) continue;
        const auto features =
            found.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceTimelineSemaphoreFeatures>();
        if (!features.get<vk::PhysicalDeviceTimelineSemaphoreFeatures>().timelineSemaphore) continue;
        const std::vector<vk::QueueFamilyProperties> families = found.getQueueFamilyProperties();
        const auto family = std::ranges::find_if(
            families, [](const auto &each) { return bool(each.queueFlags & vk::QueueFlagBits::eCompute); });
        if (family == families.end()) continue;
        queue_family = static_cast<std::uint32_t>(family - families.begin());
        physical_device = std::move(found);
        return;
    }
    throw std::runtime_error("no device has Vulkan 1.2, compute and timeline semaphores");
}

void Application::create_device() {
    // what helps vkattn, of what the device has
    std::uint32_t count = 0;
    const char *const *first = vkattn_wanted_extensions(&count);
    const std::span<const char *const> wanted(first, count);
    const std::vector<vk::ExtensionProperties> there = physical_device.enumerateDeviceExtensionProperties();
    std::ranges::copy_if(wanted, std::back_inserter(extensions),
                         [&](const char *name) { return contains(there, name); });
    const float priority = 1.0f;
    const vk::DeviceQueueCreateInfo queues({}, queue_family, 1, &priority);
    const vk::PhysicalDeviceTimelineSemaphoreFeatures timelines(true);
    device = vk::raii::Device(physical_device, {{}, queues, {}, extensions, nullptr, &timelines});
    queue = device.getQueue(queue_family, 0);
    command_pool = vk::raii::CommandPool(device, {vk::CommandPoolCreateFlagBits::eResetCommandBuffer, queue_family});
}

Storage::Storage(const Application &app, vk::DeviceSize size)
    : bytes(size), buffer(app.device, vk::BufferCreateInfo({}, size, vk::BufferUsageFlagBits::eStorageBuffer)) {
    const vk::MemoryRequirements needs = buffer.getMemoryRequirements();
    const auto wanted = vk::MemoryPropertyFlagBits::eHostVisible | vk::MemoryPropertyFlagBits::eHostCoherent;
    const vk::PhysicalDeviceMemoryProperties types = app.physical_device.getMemoryProperties();
    std::uint32_t type = 0;
    while ((needs.memoryTypeBits >> type & 1) == 0 || (types.memoryTypes[type].propertyFlags & wanted) != wanted)
        ++type;
    memory = vk::raii::DeviceMemory(app.device, {needs.size, type});
    buffer.bindMemory(*memory, 0);
    mapped = static_cast<float *>(memory.mapMemory(0, size));
}

Pass::Pass(const Application &app, const char *name, std::span<const std::uint32_t> code,
           std::span<const Storage *const> buffers)
    : app_(app), name_(name) {
    const auto count = static_cast<std::uint32_t>(buffers.size());
    std::vector<vk::DescriptorSetLayoutBinding> bindings;
    for (std::uint32_t i = 0; i < count; ++i)
        bindings.emplace_back(i, vk::DescriptorType::eStorageBuffer, 1, vk::ShaderStageFlagBits::eCompute);
    set_layout_ = vk::raii::DescriptorSetLayout(app.device, {{}, bindings});
    const vk::PushConstantRange push(vk::ShaderStageFlagBits::eCompute, 0, 3 * sizeof(std::uint32_t));
    layout_ = vk::raii::PipelineLayout(app.device, {{}, *set_layout_, push});
    const vk::raii::ShaderModule shader(app.device, {{}, code.size_bytes(), code.data()});
    const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, *shader, "main");
    pipeline_ = vk::raii::Pipeline(app.device, nullptr, vk::ComputePipelineCreateInfo({}, stage, *layout_));
    const vk::DescriptorPoolSize size(vk::DescriptorType::eStorageBuffer, count);
    pool_ = vk::raii::DescriptorPool(app.device, {vk::DescriptorPoolCreateFlagBits::eFreeDescriptorSet, 1, size});
    set_ = std::move(vk::raii::DescriptorSets(app.device, {*pool_, *set_layout_}).front());
    for (std::uint32_t i = 0; i < count; ++i) {
        const vk::DescriptorBufferInfo whole(*buffers[i]->buffer, 0, VK_WHOLE_SIZE);
        app.device.updateDescriptorSets(
            vk::WriteDescriptorSet(*set_, i, 0, vk::DescriptorType::eStorageBuffer, {}, whole), {});
    }
}

void Pass::record(const vk::raii::CommandBuffer &commands, std::span<const std::uint32_t, 3> constants,
                  std::uint32_t groups) const {
    if (app_.has_labels) commands.beginDebugUtilsLabelEXT(vk::DebugUtilsLabelEXT(name_));
    commands.bindPipeline(vk::PipelineBindPoint::eCompute, *pipeline_);
    commands.bindDescriptorSets(vk::PipelineBindPoint::eCompute, *layout_, 0, *set_, {});
    commands.pushConstants<std::uint32_t>(*layout_, vk::ShaderStageFlagBits::eCompute, 0,
                                          {static_cast<std::uint32_t>(constants.size()), constants.data()});
    commands.dispatch(groups, 1, 1);
    if (app_.has_labels) commands.endDebugUtilsLabelEXT();
}
