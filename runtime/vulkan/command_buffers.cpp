#include "runtime/vulkan/command_buffers.hpp"

#include "runtime/vulkan/handles.hpp"

namespace vkattn {
namespace {

void barrier(const Functions &vk, VkCommandBuffer commands, VkPipelineStageFlags to, VkAccessFlags access) {
    const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_MEMORY_WRITE_BIT, access};
    vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

} // namespace

CommandBuffers::CommandBuffers(Context &context, uint32_t queue_family, Use use)
    : context_(context), vk_(context.vk()), use_(use) {
    VkCommandPoolCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    create.flags = use == Use::kOnce ? VK_COMMAND_POOL_CREATE_TRANSIENT_BIT : 0;
    create.queueFamilyIndex = queue_family;
    make_handle(pool_, "vkCreateCommandPool", vk_.vkCreateCommandPool, context.device(), &create, nullptr);
}

CommandBuffers::~CommandBuffers() {
    if (!context_.is_abandoned()) vk_.vkDestroyCommandPool(context_.device(), pool_, nullptr);
}

void CommandBuffers::record(const std::function<void(VkCommandBuffer)> &record, uint32_t count) {
    if (commands_.size() < count) allocate(count - static_cast<uint32_t>(commands_.size()));
    recorded_ = count;
    for (const VkCommandBuffer commands : recorded()) record_one(commands, record);
}

void CommandBuffers::reset(bool release) {
    if (recorded_ == 0) return;
    const VkCommandPoolResetFlags flags = release ? VK_COMMAND_POOL_RESET_RELEASE_RESOURCES_BIT : 0;
    check(vk_.vkResetCommandPool(context_.device(), pool_, flags), "vkResetCommandPool");
    recorded_ = 0;
}

void CommandBuffers::allocate(uint32_t count) {
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = count;
    std::vector<VkCommandBuffer> more(count);
    commands_.reserve(commands_.size() + count);
    check(vk_.vkAllocateCommandBuffers(context_.device(), &allocate, more.data()), "vkAllocateCommandBuffers");
    for (const VkCommandBuffer commands : more) {
        commands_.push_back(commands);
        context_.debug_labels().name(VK_OBJECT_TYPE_COMMAND_BUFFER, commands, "vkattn commands");
    }
}

void CommandBuffers::record_one(VkCommandBuffer commands, const std::function<void(VkCommandBuffer)> &record) const {
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags =
        use_ == Use::kOnce ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT : VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    check(vk_.vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    // what was submitted here before
    barrier(vk_, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
    if (record) record(commands);
    // what the host reads next, and what is submitted here later: command buffers of the application's, too
    barrier(vk_, commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT,
            VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
    check(vk_.vkEndCommandBuffer(commands), "vkEndCommandBuffer");
}

} // namespace vkattn
