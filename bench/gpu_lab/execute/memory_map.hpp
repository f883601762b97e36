// GPU addresses and where they lie in this process.
#pragma once
#include <cstdint>
#include <map>

namespace execute {

class MemoryMap {
  public:
    // host stays the caller's; what lay at these addresses is replaced.
    void map(uint64_t address, uint64_t bytes, uint8_t *host);
    void unmap(uint64_t address, uint64_t bytes);
    // Null unless all the bytes lie in one mapping.
    uint8_t *at(uint64_t address, uint64_t bytes) {
        address = canonical(address);
        if ((address < last_.begin || address + bytes > last_.end) && !look_up(address, bytes)) return nullptr;
        return last_.host + (address - last_.begin);
    }
    static uint64_t canonical(uint64_t address) { return address & 0xffffffffffffull; }

  private:
    struct Range {
        uint64_t begin, end;
        uint8_t *host;
    };
    bool look_up(uint64_t address, uint64_t bytes);
    std::map<uint64_t, Range> ranges_; // by begin
    Range last_{1, 0, nullptr};
};

inline MemoryMap memory_map;
inline MemoryMap &memory() { return memory_map; }

} // namespace execute
