#include "guarded_vulkan.hpp"

#include <cstdlib>
#include <string_view>

#ifdef __linux__
#include "application.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>
#endif

namespace vkattn_test {

bool guards_pages() {
    const char *value = std::getenv("VKATTN_GUARD_PAGES");
    return value != nullptr && std::string_view(value) == "1";
}

#ifdef __linux__

namespace {

// What the driver gave, of which the caller's part lies in the middle: one page before, one after.
struct Guarded {
    std::uint8_t *begin; // of the first page
    std::uint64_t pages;
    VkDeviceSize offset; // of the caller's part, in the driver's memory
    std::uint8_t *bytes; // of the caller's part
};

struct Freed {
    VkDevice device;
    VkDeviceMemory memory;
    Guarded guarded;
};

struct State {
    std::mutex mutex;
    std::map<VkDeviceMemory, Guarded> memory;
    std::deque<Freed> freed; // the oldest first
    GuardedMemory last;
    PFN_vkGetDeviceProcAddr device_function = nullptr;
    PFN_vkCmdPushDescriptorSetKHR push_descriptors = nullptr;
    std::atomic<bool> opens_ranges{false};
};

State &state() {
    static State instance;
    return instance;
}

const std::uint64_t kPage = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
constexpr std::size_t kMostFreed = 64;

template <class Function>
Function next(VkDevice device, const char *name) {
    return reinterpret_cast<Function>(state().device_function(device, name));
}

void protect(const Guarded &guarded, std::uint64_t first, std::uint64_t pages, int access) {
    if (mprotect(guarded.begin + first * kPage, pages * kPage, access) != 0)
        throw std::runtime_error("guard pages: mprotect failed");
}

// Of memory at an address, for so many bytes: they end where the last page begins.
Guarded placed(std::uint8_t *mapped, VkDeviceSize bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(mapped);
    const std::uint64_t own_pages = (bytes + kPage - 1) / kPage;
    Guarded guarded{};
    guarded.begin = mapped + (kPage - address % kPage) % kPage;
    guarded.pages = own_pages + 2;
    guarded.bytes = guarded.begin + (own_pages + 1) * kPage - bytes;
    guarded.offset = static_cast<VkDeviceSize>(guarded.bytes - mapped);
    return guarded;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                        const VkAllocationCallbacks *host, VkDeviceMemory *memory) {
    VkMemoryAllocateInfo larger = *info;
    larger.allocationSize = (info->allocationSize + kPage - 1) / kPage * kPage + 3 * kPage;
    const VkResult result = next<PFN_vkAllocateMemory>(device, "vkAllocateMemory")(device, &larger, host, memory);
    if (result != VK_SUCCESS) return result;
    void *mapped = nullptr;
    if (next<PFN_vkMapMemory>(device, "vkMapMemory")(device, *memory, 0, VK_WHOLE_SIZE, 0, &mapped) != VK_SUCCESS)
        throw std::runtime_error("guard pages: memory cannot be mapped, expected a driver of a CPU");
    const Guarded guarded = placed(static_cast<std::uint8_t *>(mapped), info->allocationSize);
    protect(guarded, 0, 1, PROT_NONE);
    protect(guarded, guarded.pages - 1, 1, PROT_NONE);
    const std::lock_guard lock(state().mutex);
    state().memory[*memory] = guarded;
    state().last = {guarded.bytes, info->allocationSize};
    return VK_SUCCESS;
}

Guarded guarded_of(VkDeviceMemory memory) {
    const std::lock_guard lock(state().mutex);
    return state().memory.at(memory);
}

// Nobody touches these pages any more.
void release(const Freed &freed) {
    protect(freed.guarded, 0, freed.guarded.pages, PROT_READ | PROT_WRITE);
    next<PFN_vkFreeMemory>(freed.device, "vkFreeMemory")(freed.device, freed.memory, nullptr);
}

// Those of the device, or the oldest of too many.
void release_freed(VkDevice device, std::size_t most) {
    std::deque<Freed> kept;
    std::size_t too_many = state().freed.size() > most ? state().freed.size() - most : 0;
    for (const Freed &freed : state().freed)
        if (freed.device == device && too_many > 0) {
            --too_many;
            release(freed);
        } else {
            kept.push_back(freed);
        }
    state().freed.swap(kept);
}

VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *) {
    if (memory == VK_NULL_HANDLE) return;
    const std::lock_guard lock(state().mutex);
    const auto found = state().memory.find(memory);
    protect(found->second, 0, found->second.pages, PROT_NONE);
    state().freed.push_back({device, memory, found->second});
    state().memory.erase(found);
    release_freed(device, kMostFreed);
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks *host) {
    {
        const std::lock_guard lock(state().mutex);
        release_freed(device, 0);
    }
    next<PFN_vkDestroyDevice>(device, "vkDestroyDevice")(device, host);
}

VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize,
                                          VkMemoryMapFlags, void **mapped) {
    *mapped = guarded_of(memory).bytes + offset;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL bind_buffer(VkDevice device, VkBuffer buffer, VkDeviceMemory memory,
                                           VkDeviceSize offset) {
    return next<PFN_vkBindBufferMemory>(device, "vkBindBufferMemory")(device, buffer, memory,
                                                                      guarded_of(memory).offset + offset);
}

// Of a buffer that reaches over the page after its memory.
VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                             const VkAllocationCallbacks *host, VkBuffer *buffer) {
    VkBufferCreateInfo larger = *info;
    larger.size += kPage;
    return next<PFN_vkCreateBuffer>(device, "vkCreateBuffer")(device, &larger, host, buffer);
}

VKAPI_ATTR void VKAPI_CALL requirements_of_buffer(VkDevice device, VkBuffer buffer, VkMemoryRequirements *given) {
    next<PFN_vkGetBufferMemoryRequirements>(device, "vkGetBufferMemoryRequirements")(device, buffer, given);
    given->size -= kPage;
}

// Calls use(writes), whose storage buffers reach over the page after the memory, where ranges are open.
template <class Use>
void with_ranges(std::uint32_t count, const VkWriteDescriptorSet *writes, Use use) {
    if (!state().opens_ranges) return use(writes);
    std::vector<VkWriteDescriptorSet> larger(writes, writes + count);
    std::vector<std::vector<VkDescriptorBufferInfo>> ranges(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        if (writes[i].descriptorType != VK_DESCRIPTOR_TYPE_STORAGE_BUFFER) continue;
        ranges[i].assign(writes[i].pBufferInfo, writes[i].pBufferInfo + writes[i].descriptorCount);
        for (VkDescriptorBufferInfo &range : ranges[i]) range.range += kPage;
        larger[i].pBufferInfo = ranges[i].data();
    }
    use(larger.data());
}

VKAPI_ATTR void VKAPI_CALL update_descriptors(VkDevice device, std::uint32_t count, const VkWriteDescriptorSet *writes,
                                              std::uint32_t copies, const VkCopyDescriptorSet *copied) {
    with_ranges(count, writes, [&](const VkWriteDescriptorSet *larger) {
        next<PFN_vkUpdateDescriptorSets>(device, "vkUpdateDescriptorSets")(device, count, larger, copies, copied);
    });
}

VKAPI_ATTR void VKAPI_CALL push_descriptors(VkCommandBuffer commands, VkPipelineBindPoint point,
                                            VkPipelineLayout layout, std::uint32_t set, std::uint32_t count,
                                            const VkWriteDescriptorSet *writes) {
    with_ranges(count, writes, [&](const VkWriteDescriptorSet *larger) {
        state().push_descriptors(commands, point, layout, set, count, larger);
    });
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name) {
    const std::string_view wanted = name;
    if (wanted == "vkAllocateMemory") return reinterpret_cast<PFN_vkVoidFunction>(&allocate);
    if (wanted == "vkFreeMemory") return reinterpret_cast<PFN_vkVoidFunction>(&free_memory);
    if (wanted == "vkMapMemory") return reinterpret_cast<PFN_vkVoidFunction>(&map_memory);
    if (wanted == "vkBindBufferMemory") return reinterpret_cast<PFN_vkVoidFunction>(&bind_buffer);
    if (wanted == "vkDestroyDevice") return reinterpret_cast<PFN_vkVoidFunction>(&destroy_device);
    if (wanted == "vkCreateBuffer") return reinterpret_cast<PFN_vkVoidFunction>(&create_buffer);
    if (wanted == "vkGetBufferMemoryRequirements") return reinterpret_cast<PFN_vkVoidFunction>(&requirements_of_buffer);
    if (wanted == "vkUpdateDescriptorSets") return reinterpret_cast<PFN_vkVoidFunction>(&update_descriptors);
    const PFN_vkVoidFunction real = state().device_function(device, name);
    if (wanted != "vkCmdPushDescriptorSetKHR" || real == nullptr) return real;
    state().push_descriptors = reinterpret_cast<PFN_vkCmdPushDescriptorSetKHR>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(&push_descriptors);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char *name) {
    const PFN_vkVoidFunction real = vkGetInstanceProcAddr(instance, name);
    if (std::string_view(name) != "vkGetDeviceProcAddr" || real == nullptr) return real;
    const std::lock_guard lock(state().mutex);
    state().device_function = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(&device_function);
}

} // namespace

GuardedMemory last_guarded_memory() {
    const std::lock_guard lock(state().mutex);
    return state().last;
}

OpenRanges::OpenRanges() { state().opens_ranges = true; }
OpenRanges::~OpenRanges() { state().opens_ranges = false; }

PFN_vkGetInstanceProcAddr guarded_vulkan() {
    load_vulkan();
    return instance_function;
}

#else

GuardedMemory last_guarded_memory() { return {}; }
OpenRanges::OpenRanges() = default;
OpenRanges::~OpenRanges() = default;
PFN_vkGetInstanceProcAddr guarded_vulkan() { return nullptr; }

#endif

} // namespace vkattn_test
