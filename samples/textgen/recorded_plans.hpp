// The application's part: one command buffer with plans, one after the other, to be submitted again and again.
#pragma once

#include <vkattn/vkattn.hpp>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

inline void check(VkResult result) {
    if (result != VK_SUCCESS) throw std::runtime_error("Vulkan: " + std::to_string(result));
}

// A plan, and the buffers it is recorded with; a workspace is added.
struct BoundPlan {
    const vkattn::Plan &plan;
    std::vector<vkattn_binding> bindings;
};

class RecordedPlans {
  public:
    // Plans and buffers must outlive it.
    RecordedPlans(const vkattn::Context &context, const std::vector<BoundPlan> &plans) {
        vkattn::check(vkattn_context_handles(context.get(), nullptr, nullptr, &device_, &queue_, &family_));
        VkCommandPoolCreateInfo pool{};
        pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
        pool.queueFamilyIndex = family_;
        check(vkCreateCommandPool(device_, &pool, nullptr, &pool_));
        VkCommandBufferAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
        allocate.commandPool = pool_;
        allocate.commandBufferCount = 1;
        check(vkAllocateCommandBuffers(device_, &allocate, &commands_));
        make_room(context, plans);
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        check(vkBeginCommandBuffer(commands_, &begin));
        for (const BoundPlan &bound : plans) record(bound);
        make_visible_to_host();
        check(vkEndCommandBuffer(commands_));
    }
    ~RecordedPlans() {
        vkDestroyDescriptorPool(device_, descriptors_, nullptr);
        vkDestroyCommandPool(device_, pool_, nullptr);
    }
    RecordedPlans(const RecordedPlans &) = delete;
    RecordedPlans &operator=(const RecordedPlans &) = delete;

    void submit_and_wait() {
        VkSubmitInfo submit{};
        submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        submit.commandBufferCount = 1;
        submit.pCommandBuffers = &commands_;
        check(vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE));
        check(vkQueueWaitIdle(queue_));
    }

  private:
    // One workspace serves all plans, since each waits for the one before; descriptor sets are of each plan's own.
    void make_room(const vkattn::Context &context, const std::vector<BoundPlan> &plans) {
        std::vector<vkattn_requirements> needs;
        for (const BoundPlan &bound : plans) needs.push_back(bound.plan.requirements());
        const vkattn_requirements all = vkattn::together(needs);
        if (all.workspace_bytes > 0) workspace_ = context.buffer(all.workspace_bytes);
        if (all.descriptor_sets == 0) return;
        const std::vector<VkDescriptorPoolSize> sizes = vkattn::descriptor_pool_sizes(all);
        VkDescriptorPoolCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        create.maxSets = all.descriptor_sets;
        create.poolSizeCount = static_cast<std::uint32_t>(sizes.size());
        create.pPoolSizes = sizes.data();
        check(vkCreateDescriptorPool(device_, &create, nullptr, &descriptors_));
    }

    void record(const BoundPlan &bound) {
        VkMemoryBarrier barrier{};
        barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
        barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
        barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
        vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0,
                             1, &barrier, 0, nullptr, 0, nullptr);
        std::vector<vkattn_binding> bindings = bound.bindings;
        if (bound.plan.requirements().workspace_bytes > 0)
            bindings.push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, workspace_));
        bound.plan.record(commands_, bindings, descriptors_);
    }

    void make_visible_to_host() {
        VkMemoryBarrier barrier{};
        barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
        barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
        barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
        vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                             &barrier, 0, nullptr, 0, nullptr);
    }

    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    std::uint32_t family_ = 0;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    vkattn::Buffer workspace_; // empty: none is needed
};
