// What a dispatch executed: a line of JSON each, in the file that the setting `counters` names. With the setting `model` it
// has a modelled time; in the file that `instructions` names each instruction has its share.
#pragma once
#include "dispatch.hpp"
#include "modelled_time.hpp"
#include "wave.hpp"

#include <cstdio>
#include <map>
#include <memory>
#include <unordered_set>

namespace execute {

class Counters {
  public:
    Counters();
    bool is_on() const { return file_ != nullptr; }
    void begin_submission();
    uint64_t submission() const { return submission_; }
    void note_flush() { is_flushed_ = true; } // what was dispatched before is done before what follows
    void begin_dispatch(const Dispatch &dispatch);
    void begin_workgroup();
    void count(const Wave &wave, const Instruction &instruction); // before it is executed
    void pass_barrier(const Workgroup &group);
    void end_workgroup(const Workgroup &group);
    void end_dispatch();

  private:
    struct InstructionCounts { // of waves
        const Instruction *instruction = nullptr;
        uint64_t count = 0, stall_cycles = 0, lds_cycles = 0, lds_fewest_cycles = 0, lines = 0;
        std::map<const Instruction *, uint64_t> stalls; // of a wait, by the access
    };
    void add(const Instruction &instruction, const Stall &stall);
    void write_dispatch();
    void write_instructions();

    FILE *file_ = nullptr, *instructions_file_ = nullptr;
    std::unique_ptr<ModelledTime> model_;
    uint64_t submission_ = 0, number_ = 0;
    bool is_flushed_ = true;
    Dispatch dispatch_;
    std::array<uint64_t, size_t(Kind::count)> instructions_{};
    std::vector<InstructionCounts> counts_; // by the place in the program, in words
    Access access_;
    uint64_t active_lanes_ = 0, lane_slots_ = 0; // of vector arithmetic
    uint64_t lds_cycles_ = 0, lds_fewest_cycles_ = 0;
    uint64_t requested_lines_ = 0, lane_bytes_ = 0;
    uint64_t longest_wave_ = 0, barriers_ = 0;
    std::unordered_set<uint64_t> lines_; // each counted once
};

Counters &counters();

} // namespace execute
