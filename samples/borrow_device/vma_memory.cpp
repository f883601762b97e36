#include "vma_memory.hpp"

#define VMA_STATIC_VULKAN_FUNCTIONS 0
#define VMA_DYNAMIC_VULKAN_FUNCTIONS 1
#define VMA_IMPLEMENTATION
#include <vk_mem_alloc.h>

#include <cstdio>
#include <stdexcept>

namespace {

VkResult allocate(void *allocator, const vkattn_memory_request *request, vkattn_memory *memory) {
    VmaAllocationCreateInfo wanted{};
    if (request->use == VKATTN_MEMORY_DEVICE) {
        wanted.preferredFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    } else { // what the host sees
        wanted.flags = VMA_ALLOCATION_CREATE_MAPPED_BIT;
        wanted.requiredFlags = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        if (request->use == VKATTN_MEMORY_READBACK) wanted.preferredFlags = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
        if (request->use == VKATTN_MEMORY_UNIFORM) wanted.preferredFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    }
    VmaAllocation allocation = nullptr;
    VmaAllocationInfo info{};
    const VkResult result =
        vmaAllocateMemoryForBuffer(static_cast<VmaAllocator>(allocator), request->buffer, &wanted, &allocation, &info);
    if (result == VK_SUCCESS) *memory = {info.deviceMemory, info.offset, info.pMappedData, allocation};
    return result;
}

void free_memory(void *allocator, const vkattn_memory *memory) {
    vmaFreeMemory(static_cast<VmaAllocator>(allocator), static_cast<VmaAllocation>(memory->allocation));
}

} // namespace

VmaMemory::VmaMemory(const Application &app) {
    VmaVulkanFunctions functions{}; // VMA asks these two for the rest
    functions.vkGetInstanceProcAddr = vkGetInstanceProcAddr;
    functions.vkGetDeviceProcAddr =
        reinterpret_cast<PFN_vkGetDeviceProcAddr>(vkGetInstanceProcAddr(*app.instance, "vkGetDeviceProcAddr"));
    VmaAllocatorCreateInfo create{};
    create.instance = *app.instance;
    create.physicalDevice = *app.physical_device;
    create.device = *app.device;
    create.vulkanApiVersion = VK_API_VERSION_1_2;
    create.pVulkanFunctions = &functions;
    if (vmaCreateAllocator(&create, &allocator_) != VK_SUCCESS) throw std::runtime_error("VMA: no allocator");
    callbacks_.allocate = allocate;
    callbacks_.free = free_memory;
    callbacks_.user = allocator_;
}

VmaMemory::~VmaMemory() { vmaDestroyAllocator(allocator_); }

void VmaMemory::print_statistics() const {
    VmaTotalStatistics all{};
    vmaCalculateStatistics(allocator_, &all);
    const VmaStatistics &total = all.total.statistics;
    std::printf("VMA: %u allocations, %llu KiB, in %u blocks of device memory\n", total.allocationCount,
                static_cast<unsigned long long>(total.allocationBytes >> 10), total.blockCount);
}
