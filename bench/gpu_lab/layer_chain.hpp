// What every Vulkan layer needs: its objects by the handles of instances and devices, and the loader's items of chains.
#pragma once
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace vkattn::gpu_lab {

// By the loader's table that every dispatchable handle begins with: a device's queues have their device's.
template <class Owned>
class Registry {
  public:
    template <class Handle>
    static void *key(Handle handle) {
        return *reinterpret_cast<void **>(handle);
    }

    template <class Handle>
    Owned &of(Handle handle) {
        const std::shared_lock lock(mutex_);
        return *all_.at(key(handle));
    }

    template <class Handle>
    void add(Handle handle, std::unique_ptr<Owned> owned) {
        const std::unique_lock lock(mutex_);
        all_[key(handle)] = std::move(owned);
    }

    void remove(void *key) {
        const std::unique_lock lock(mutex_);
        all_.erase(key);
    }

  private:
    std::shared_mutex mutex_;
    std::unordered_map<void *, std::unique_ptr<Owned>> all_;
};

template <class Wanted>
const Wanted *in_chain(const void *chain, VkStructureType type) {
    for (auto *item = static_cast<const VkBaseInStructure *>(chain); item != nullptr; item = item->pNext)
        if (item->sType == type) return reinterpret_cast<const Wanted *>(item);
    return nullptr;
}

// The loader's item of a chain, which a layer moves on for the next one.
template <class Info>
Info *layer_link(const void *chain, VkStructureType type) {
    for (auto *item = in_chain<Info>(chain, type); item != nullptr; item = in_chain<Info>(item->pNext, type))
        if (item->function == VK_LAYER_LINK_INFO) return const_cast<Info *>(item);
    return nullptr;
}

} // namespace vkattn::gpu_lab
