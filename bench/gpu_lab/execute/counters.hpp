// What a dispatch executed: a line of JSON each, in the file that the setting `counters` names.
#pragma once
#include "dispatch.hpp"
#include "wave.hpp"

#include <cstdio>
#include <unordered_set>

namespace execute {

class Counters {
  public:
    Counters();
    bool is_on() const { return file_ != nullptr; }
    void begin_dispatch(const Dispatch &dispatch);
    void count(const Wave &wave, const Instruction &instruction); // before it is executed
    void pass_barrier(const Workgroup &group);
    void end_workgroup(const Workgroup &group);
    void end_dispatch();

  private:
    void count_shared(const Wave &wave, const Instruction &instruction);
    void count_memory(const Wave &wave, const Instruction &instruction);

    FILE *file_ = nullptr;
    uint64_t number_ = 0;
    Dispatch dispatch_;
    std::array<uint64_t, size_t(Kind::count)> instructions_{};
    uint64_t active_lanes_ = 0, lane_slots_ = 0; // of vector arithmetic
    uint64_t shared_cycles_ = 0, shared_fewest_cycles_ = 0;
    uint64_t requested_lines_ = 0, lane_bytes_ = 0;
    uint64_t longest_wave_ = 0, barriers_ = 0;
    std::unordered_set<uint64_t> lines_; // of 128 bytes, each counted once
};

Counters &counters();

} // namespace execute
