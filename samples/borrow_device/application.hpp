// What an application has without vkattn: a device that volk has loaded Vulkan for, its buffers and its compute passes.
#pragma once

#include <volk.h>

#define VULKAN_HPP_ENABLE_DYNAMIC_LOADER_TOOL 0 // volk has opened the loader
#include <vulkan/vulkan_raii.hpp>

#include <cstdint>
#include <span>
#include <vector>

struct Application {
    Application();

    vk::raii::Context loader;
    vk::raii::Instance instance = nullptr;
    vk::raii::PhysicalDevice physical_device = nullptr;
    std::uint32_t queue_family = 0;
    bool has_labels = false;              // VK_EXT_debug_utils
    std::vector<const char *> extensions; // of the device
    vk::raii::Device device = nullptr;
    vk::raii::Queue queue = nullptr;
    vk::raii::CommandPool command_pool = nullptr;

  private:
    void create_instance();
    void choose_device();
    void create_device();
};

// A storage buffer in memory that the host sees.
struct Storage {
    Storage(const Application &app, vk::DeviceSize size);

    vk::DeviceSize bytes;
    vk::raii::Buffer buffer;
    vk::raii::DeviceMemory memory = nullptr;
    float *mapped = nullptr;
};

// A compute pass over some buffers, with three push constants.
class Pass {
  public:
    Pass(const Application &app, const char *name, std::span<const std::uint32_t> code,
         std::span<const Storage *const> buffers);

    void record(const vk::raii::CommandBuffer &commands, std::span<const std::uint32_t, 3> constants,
                std::uint32_t groups) const;

  private:
    const Application &app_;
    const char *name_;
    vk::raii::DescriptorSetLayout set_layout_ = nullptr;
    vk::raii::PipelineLayout layout_ = nullptr;
    vk::raii::Pipeline pipeline_ = nullptr;
    vk::raii::DescriptorPool pool_ = nullptr;
    vk::raii::DescriptorSet set_ = nullptr;
};
