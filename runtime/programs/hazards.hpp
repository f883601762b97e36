#pragma once

#include "runtime/plan/recorder.hpp"

#include <cstdint>
#include <map>
#include <span>

namespace vkattn {

// What dispatches have read and written since the last barrier.
class Hazards {
  public:
    // Whether a dispatch of these accesses must wait: it writes what was read or written, or reads what was written.
    bool conflict(std::span<const Access> accesses) const;
    void add(std::span<const Access> accesses);
    void clear() { // a barrier
        reads_.clear();
        writes_.clear();
    }

  private:
    using Ranges = std::map<uint64_t, uint64_t>; // beginnings and ends, apart from each other
    using Buffers = std::map<VkBuffer, Ranges>;

    static bool overlaps(const Buffers &buffers, const Access &access);

    Buffers reads_, writes_;
};

} // namespace vkattn
