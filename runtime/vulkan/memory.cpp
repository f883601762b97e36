#include "runtime/vulkan/memory.hpp"

#include "runtime/support/error.hpp"
#include "runtime/vulkan/submit.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr uint64_t kLargestStaging = uint64_t{64} << 20;

// Whether the host sees (nearly) all device-local memory: integrated GPUs, CPUs, resizable BAR. A small window is left
// to those who need it.
bool host_sees_device_memory(const VkPhysicalDeviceMemoryProperties &memory) {
    uint64_t largest = 0;
    uint64_t visible = 0;
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
        const VkMemoryType &type = memory.memoryTypes[i];
        if ((type.propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) == 0) continue;
        const uint64_t size = memory.memoryHeaps[type.heapIndex].size;
        largest = std::max(largest, size);
        if ((type.propertyFlags & kHost) == kHost) visible = std::max(visible, size);
    }
    return visible > 0 && visible >= largest / 2;
}

VkBufferUsageFlags usage_flags(const DeviceCaps &caps, Buffer::Use use) {
    if (use == Buffer::Use::kUniform) return VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;
    const VkBufferUsageFlags usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    return caps.buffers_have_addresses != 0 ? usage | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : usage;
}

} // namespace

Buffer::Buffer(Context &context, uint64_t bytes, Use use) : context_(context), bytes_(bytes) {
    if (const uint64_t most = context.caps().max_buffer_bytes; most != 0 && bytes > most)
        fail(VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, "buffer: ", bytes, " bytes, expected at most ", most,
             " (maxBufferSize of ", context.caps().name, ")");
    try {
        VkBufferCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
        create.size = bytes;
        create.usage = usage_flags(context.caps(), use);
        check(context.vk().vkCreateBuffer(context.device(), &create, nullptr, &buffer_), "vkCreateBuffer");
        allocate(use);
        check(context.vk().vkBindBufferMemory(context.device(), buffer_, memory_, 0), "vkBindBufferMemory");
    } catch (...) {
        destroy();
        throw;
    }
}

Buffer::~Buffer() { destroy(); }

void Buffer::destroy() noexcept {
    context_.vk().vkDestroyBuffer(context_.device(), buffer_, nullptr);
    context_.vk().vkFreeMemory(context_.device(), memory_, nullptr);
}

void Buffer::allocate(Use use) {
    const Functions &vk = context_.vk();
    VkMemoryRequirements requirements;
    vk.vkGetBufferMemoryRequirements(context_.device(), buffer_, &requirements);
    VkPhysicalDeviceMemoryProperties memory;
    vk.vkGetPhysicalDeviceMemoryProperties(context_.physical_device(), &memory);
    bool done = false;
    if (use == Use::kStorage) {
        if (host_sees_device_memory(memory))
            done = try_allocate(requirements, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | kHost);
        if (!done) done = try_allocate(requirements, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
    }
    if (use == Use::kUniform) done = try_allocate(requirements, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | kHost);
    if (!done) done = try_allocate(requirements, kHost);
    if (!done)
        fail(VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, "buffer: ", bytes_, " bytes cannot be allocated on ",
             context_.caps().name);
}

bool Buffer::try_allocate(const VkMemoryRequirements &requirements, VkMemoryPropertyFlags wanted) {
    const Functions &vk = context_.vk();
    VkPhysicalDeviceMemoryProperties memory;
    vk.vkGetPhysicalDeviceMemoryProperties(context_.physical_device(), &memory);
    for (uint32_t type = 0; type < memory.memoryTypeCount; ++type) {
        const VkMemoryPropertyFlags flags = memory.memoryTypes[type].propertyFlags;
        if ((requirements.memoryTypeBits & (1u << type)) == 0 || (flags & wanted) != wanted) continue;
        if (requirements.size > memory.memoryHeaps[memory.memoryTypes[type].heapIndex].size) continue;
        VkMemoryAllocateFlagsInfo with_address{};
        with_address.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
        with_address.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
        VkMemoryAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
        if (context_.caps().buffers_have_addresses != 0) allocate.pNext = &with_address;
        allocate.allocationSize = requirements.size;
        allocate.memoryTypeIndex = type;
        const VkResult result = vk.vkAllocateMemory(context_.device(), &allocate, nullptr, &memory_);
        if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY ||
            result == VK_ERROR_TOO_MANY_OBJECTS)
            continue;
        check(result, "vkAllocateMemory");
        if ((wanted & kHost) == kHost) {
            void *mapped = nullptr;
            check(vk.vkMapMemory(context_.device(), memory_, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
            mapped_ = static_cast<std::byte *>(mapped);
        }
        return true;
    }
    return false;
}

void Buffer::write(uint64_t offset, const void *data, uint64_t bytes) {
    if (bytes == 0) return;
    if (mapped_ != nullptr)
        std::memcpy(mapped_ + offset, data, bytes);
    else
        copy_through_staging(offset, static_cast<std::byte *>(const_cast<void *>(data)), bytes, true);
}

void Buffer::read(uint64_t offset, void *data, uint64_t bytes) {
    if (bytes == 0) return;
    if (mapped_ != nullptr)
        std::memcpy(data, mapped_ + offset, bytes);
    else
        copy_through_staging(offset, static_cast<std::byte *>(data), bytes, false);
}

void Buffer::copy_through_staging(uint64_t offset, std::byte *data, uint64_t bytes, bool to_device) {
    Buffer staging(context_, std::min(bytes, kLargestStaging), Use::kStaging);
    for (uint64_t done = 0; done < bytes; done += staging.bytes()) {
        const uint64_t part = std::min(staging.bytes(), bytes - done);
        if (to_device) std::memcpy(staging.mapped_, data + done, part);
        submit_and_wait(context_, [&](VkCommandBuffer commands) {
            const VkBufferCopy region{to_device ? 0 : offset + done, to_device ? offset + done : 0, part};
            context_.vk().vkCmdCopyBuffer(commands, to_device ? staging.buffer_ : buffer_,
                                          to_device ? buffer_ : staging.buffer_, 1, &region);
            if (to_device) return;
            VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                                    VK_ACCESS_HOST_READ_BIT};
            context_.vk().vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0,
                                               1, &barrier, 0, nullptr, 0, nullptr);
        });
        if (!to_device) std::memcpy(data + done, staging.mapped_, part);
    }
}

} // namespace vkattn
