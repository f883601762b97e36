#pragma once

#include "runtime/plan/recorder.hpp"

#include <span>
#include <vector>

namespace vkattn {

// What dispatches have read and written since the last barrier.
class Hazards {
  public:
    // Whether a dispatch of these accesses must wait: it writes what was read or written, or reads what was written.
    bool conflict(std::span<const Access> accesses) const;
    void add(std::span<const Access> accesses) { since_.insert(since_.end(), accesses.begin(), accesses.end()); }
    void clear() { since_.clear(); } // a barrier

  private:
    std::vector<Access> since_;
};

} // namespace vkattn
