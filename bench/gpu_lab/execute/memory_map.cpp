#include "memory_map.hpp"

namespace execute {

void MemoryMap::map(uint64_t address, uint64_t bytes, uint8_t *host) {
    address = canonical(address);
    unmap(address, bytes);
    ranges_[address] = {address, address + bytes, host};
}

void MemoryMap::unmap(uint64_t address, uint64_t bytes) {
    address = canonical(address);
    for (auto range = ranges_.begin(); range != ranges_.end();)
        if (range->second.begin < address + bytes && range->second.end > address)
            range = ranges_.erase(range);
        else
            ++range;
    last_ = {1, 0, nullptr};
}

bool MemoryMap::look_up(uint64_t address, uint64_t bytes) {
    auto range = ranges_.upper_bound(address);
    if (range == ranges_.begin()) return false;
    --range;
    if (address + bytes > range->second.end) return false;
    last_ = range->second;
    return true;
}

} // namespace execute
