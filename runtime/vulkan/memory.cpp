#include "runtime/vulkan/memory.hpp"

#include "runtime/support/error.hpp"
#include "runtime/vulkan/handles.hpp"
#include "runtime/vulkan/submissions.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace vkattn {
namespace {

constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCachedHost = kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr VkMemoryPropertyFlags kDeviceAndHost = kHost | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr uint64_t kSmallestBuffer = 4; // Vulkan has none of nothing
constexpr uint64_t kLargestStaging = uint64_t{16} << 20;
constexpr uint64_t kSmallestStaging = uint64_t{64} << 10;
// What the host reads from memory that it does not cache, rather than have it copied first.
constexpr uint64_t kFewBytes = 256;

VkPhysicalDeviceMemoryProperties memory_properties(const Context &context) {
    VkPhysicalDeviceMemoryProperties memory;
    context.vk().vkGetPhysicalDeviceMemoryProperties(context.physical_device(), &memory);
    return memory;
}

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

// The properties to look for, the best first.
std::vector<VkMemoryPropertyFlags> wishes(const VkPhysicalDeviceMemoryProperties &memory, vkattn_memory_use use) {
    switch (use) {
    case VKATTN_MEMORY_UNIFORM:
        return {kDeviceAndHost, kHost};
    case VKATTN_MEMORY_UPLOAD:
        return {kHost};
    case VKATTN_MEMORY_READBACK:
        return {kCachedHost, kHost};
    default:
        break;
    }
    if (host_sees_device_memory(memory)) return {kDeviceAndHost, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, kHost};
    return {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, kHost};
}

VkBufferUsageFlags usage_flags(const DeviceCaps &caps, vkattn_memory_use use) {
    if (use == VKATTN_MEMORY_UNIFORM) return VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT;
    const VkBufferUsageFlags usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    return caps.buffers_have_addresses != 0 ? usage | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT : usage;
}

// Bytes that may be allocated yet, by heap: what VK_EXT_memory_budget says, or all of the heap.
std::vector<uint64_t> free_memory(const Context &context) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
    budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    VkPhysicalDeviceMemoryProperties2 memory{};
    memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    if (context.has_memory_budget()) memory.pNext = &budget;
    context.vk().vkGetPhysicalDeviceMemoryProperties2(context.physical_device(), &memory);
    std::vector<uint64_t> free;
    for (uint32_t heap = 0; heap < memory.memoryProperties.memoryHeapCount; ++heap) {
        const uint64_t room = budget.heapBudget[heap]; // 0: unknown
        free.push_back(room != 0 ? room - std::min(budget.heapUsage[heap], room)
                                 : memory.memoryProperties.memoryHeaps[heap].size);
    }
    return free;
}

// "1024 of 8192 MiB of device memory"
std::string free_memory_text(const VkPhysicalDeviceMemoryProperties &memory, std::span<const uint64_t> free) {
    std::string heaps;
    for (uint32_t heap = 0; heap < memory.memoryHeapCount; ++heap)
        heaps += text(heap == 0 ? "" : ", ", free[heap] >> 20, " of ", memory.memoryHeaps[heap].size >> 20, " MiB of ",
                      (memory.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 ? "device" : "host",
                      " memory");
    return heaps;
}

// What records the copy of a part of one buffer into another.
std::function<void(VkCommandBuffer)> copying(const Functions &vk, VkBuffer from, VkBuffer to, VkBufferCopy part) {
    return [&vk, from, to, part](VkCommandBuffer commands) { vk.vkCmdCopyBuffer(commands, from, to, 1, &part); };
}

bool is_shortage(VkResult result) {
    return result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY ||
           result == VK_ERROR_TOO_MANY_OBJECTS;
}

} // namespace

Buffer::Buffer(Context &context, uint64_t bytes, const char *name, vkattn_memory_use use)
    : context_(context), bytes_(std::max(bytes, kSmallestBuffer)) {
    if (const uint64_t most = context.caps().max_buffer_bytes; most != 0 && bytes > most)
        fail(VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, "buffer: ", bytes, " bytes, expected at most ", most,
             " (maxBufferSize of ", context.caps().name, ")");
    try {
        create(use);
        allocate(use);
        check(context.vk().vkBindBufferMemory(context.device(), buffer_, memory_.memory, memory_.offset),
              "vkBindBufferMemory");
        context.add_buffer(buffer_, bytes_);
    } catch (...) {
        destroy();
        throw;
    }
    context.debug_labels().name(VK_OBJECT_TYPE_BUFFER, buffer_, name);
}

Buffer::~Buffer() {
    context_.remove_buffer(buffer_);
    destroy();
}

void Buffer::create(vkattn_memory_use use) {
    const std::array<uint32_t, 2> families{context_.queue_family(), context_.transfer_queue_family()};
    VkBufferCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    create.size = bytes_;
    create.usage = usage_flags(context_.caps(), use);
    if (families[0] != families[1]) {
        create.sharingMode = VK_SHARING_MODE_CONCURRENT;
        create.queueFamilyIndexCount = static_cast<uint32_t>(families.size());
        create.pQueueFamilyIndices = families.data();
    }
    make_handle(buffer_, "vkCreateBuffer", context_.vk().vkCreateBuffer, context_.device(), &create, nullptr);
}

void Buffer::destroy() noexcept {
    if (context_.is_abandoned()) return;
    context_.vk().vkDestroyBuffer(context_.device(), buffer_, nullptr);
    if (is_applications_)
        context_.memory_callbacks()->free(context_.memory_callbacks()->user, &memory_);
    else
        context_.vk().vkFreeMemory(context_.device(), memory_.memory, nullptr);
}

void Buffer::allocate(vkattn_memory_use use) {
    vkattn_memory_request request{};
    request.buffer = buffer_;
    request.use = use;
    if (context_.caps().buffers_have_addresses != 0) request.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    context_.vk().vkGetBufferMemoryRequirements(context_.device(), buffer_, &request.requirements);
    if (context_.memory_callbacks() != nullptr)
        ask_application(request);
    else
        allocate_own(request.requirements, use);
}

void Buffer::ask_application(vkattn_memory_request request) {
    const vkattn_memory_callbacks &memory = *context_.memory_callbacks();
    vkattn_memory given{}; // of a call that fails nothing counts
    const VkResult result = memory.allocate(memory.user, &request, &given);
    if (is_shortage(result))
        fail(VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, "memory.allocate: VkResult ", static_cast<int>(result), " for ",
             request.requirements.size, " bytes, expected memory");
    check(result, "memory.allocate");
    memory_ = given;
    is_applications_ = true;
    require(memory_.memory != VK_NULL_HANDLE, "memory.allocate: VK_NULL_HANDLE, expected memory");
    require(memory_.offset % request.requirements.alignment == 0, "memory.allocate: offset ", memory_.offset,
            ", expected a multiple of the ", request.requirements.alignment, " that was asked for");
    require(memory_.mapped != nullptr || request.use == VKATTN_MEMORY_DEVICE,
            "memory.allocate: mapped NULL, expected an address but for VKATTN_MEMORY_DEVICE");
}

void Buffer::allocate_own(const VkMemoryRequirements &requirements, vkattn_memory_use use) {
    const VkPhysicalDeviceMemoryProperties memory = memory_properties(context_);
    const std::vector<uint64_t> free = free_memory(context_);
    for (const VkMemoryPropertyFlags wanted : wishes(memory, use))
        if (try_allocate(requirements, wanted, use, memory, free)) return;
    fail(VKATTN_ERROR_OUT_OF_DEVICE_MEMORY, "buffer: ", bytes_, " bytes cannot be allocated on ", context_.caps().name,
         ", expected at most what is free there: ", free_memory_text(memory, free));
}

bool Buffer::try_allocate(const VkMemoryRequirements &requirements, VkMemoryPropertyFlags wanted, vkattn_memory_use use,
                          const VkPhysicalDeviceMemoryProperties &memory, std::span<const uint64_t> free) {
    const Functions &vk = context_.vk();
    for (uint32_t type = 0; type < memory.memoryTypeCount; ++type) {
        const VkMemoryPropertyFlags flags = memory.memoryTypes[type].propertyFlags;
        if ((requirements.memoryTypeBits & (1u << type)) == 0 || (flags & wanted) != wanted) continue;
        if (requirements.size > free[memory.memoryTypes[type].heapIndex]) continue;
        VkMemoryAllocateFlagsInfo with_address{};
        with_address.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
        with_address.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
        VkMemoryAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
        if (context_.caps().buffers_have_addresses != 0) allocate.pNext = &with_address;
        allocate.allocationSize = requirements.size;
        allocate.memoryTypeIndex = type;
        VkDeviceMemory given = VK_NULL_HANDLE;
        const VkResult result = vk.vkAllocateMemory(context_.device(), &allocate, nullptr, &given);
        if (is_shortage(result)) continue;
        check(result, "vkAllocateMemory");
        memory_.memory = given;
        is_cached_ = (flags & kCachedHost) == kCachedHost;
        if ((wanted & kHost) == kHost) map(use);
        return true;
    }
    return false;
}

// Memory for DEVICE serves without it, by staging.
void Buffer::map(vkattn_memory_use use) {
    void *mapped = nullptr;
    const VkResult result = context_.vk().vkMapMemory(context_.device(), memory_.memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    if (use != VKATTN_MEMORY_DEVICE) check(result, "vkMapMemory");
    if (result == VK_SUCCESS) memory_.mapped = mapped;
}

void Buffer::write(uint64_t offset, const void *data, uint64_t bytes) {
    if (mapped() != nullptr) {
        if (bytes != 0) std::memcpy(mapped() + offset, data, bytes);
        return;
    }
    const auto *from = static_cast<const std::byte *>(data);
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t part = std::min(kLargestStaging, bytes - done);
        const std::shared_ptr<Buffer> staging = context_.staging().take(part, VKATTN_MEMORY_UPLOAD);
        std::memcpy(staging->mapped(), from + done, part);
        context_.submissions().run(copying(context_.vk(), staging->handle(), buffer_, {0, offset + done, part}));
        done += part;
    }
}

void Buffer::read(uint64_t offset, void *data, uint64_t bytes) {
    if (mapped() != nullptr && (is_cached_ || bytes <= kFewBytes)) {
        if (bytes != 0) std::memcpy(data, mapped() + offset, bytes);
        return;
    }
    auto *to = static_cast<std::byte *>(data);
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t part = std::min(kLargestStaging, bytes - done);
        const std::shared_ptr<Buffer> staging = context_.staging().take(part, VKATTN_MEMORY_READBACK);
        context_.submissions().run(copying(context_.vk(), buffer_, staging->handle(), {offset + done, 0, part}));
        std::memcpy(to + done, staging->mapped(), part);
        done += part;
    }
}

void Buffer::upload(uint64_t offset, const void *data, uint64_t bytes, const vkattn_sync *sync) {
    Submissions::Work work;
    if (bytes != 0) {
        const std::shared_ptr<Buffer> staging = context_.staging().take(bytes, VKATTN_MEMORY_UPLOAD);
        std::memcpy(staging->mapped(), data, bytes);
        work.kept = {staging, context_.keep_buffer(buffer_)};
        work.record = copying(context_.vk(), staging->handle(), buffer_, {0, offset, bytes});
    }
    context_.submissions().submit(Submissions::Lane::kTransfer, std::move(work), sync);
}

void Buffer::download(uint64_t offset, void *data, uint64_t bytes, const vkattn_sync *sync) {
    Submissions::Work work;
    if (bytes != 0) {
        const std::shared_ptr<Buffer> staging = context_.staging().take(bytes, VKATTN_MEMORY_READBACK);
        work.kept = {staging, context_.keep_buffer(buffer_)};
        work.record = copying(context_.vk(), buffer_, staging->handle(), {offset, 0, bytes});
        work.done = [staging = staging.get(), data, bytes] { std::memcpy(data, staging->mapped(), bytes); };
    }
    context_.submissions().submit(Submissions::Lane::kTransfer, std::move(work), sync);
}

std::shared_ptr<Buffer> Staging::take(uint64_t bytes, vkattn_memory_use use) {
    std::unique_ptr<Buffer> buffer;
    {
        const std::lock_guard lock(mutex_);
        std::unique_ptr<Buffer> &kept = use == VKATTN_MEMORY_UPLOAD ? upload_ : readback_;
        if (kept != nullptr && kept->bytes() >= bytes) buffer = std::move(kept);
    }
    const uint64_t room = bytes > kLargestStaging ? bytes : std::max(std::bit_ceil(bytes), kSmallestStaging);
    if (buffer == nullptr) buffer = std::make_unique<Buffer>(context_, room, "vkattn staging", use);
    return {buffer.release(), [this, use](Buffer *given) { give_back(std::unique_ptr<Buffer>(given), use); }};
}

void Staging::give_back(std::unique_ptr<Buffer> buffer, vkattn_memory_use use) noexcept {
    if (buffer->bytes() > kLargestStaging) return;
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Buffer> &kept = use == VKATTN_MEMORY_UPLOAD ? upload_ : readback_;
    if (kept == nullptr || kept->bytes() < buffer->bytes()) kept.swap(buffer);
}

} // namespace vkattn
