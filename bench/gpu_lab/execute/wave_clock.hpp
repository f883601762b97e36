// A wave's clock, for several models side by side: its instructions issue in order, wait for registers that arithmetic has not
// delivered yet, and at waits for the oldest of each counter's accesses.
#pragma once
#include "accesses.hpp"
#include "gpu_facts.hpp"
#include "memory_lines.hpp"

#include <array>

namespace execute {

// A model's facts: those of the GPU, with one guess changed.
struct Model {
    const char *name; // empty: nothing is changed
    GpuFacts facts;
};
constexpr size_t kClocks = 12;
std::array<Model, kClocks> models_of(const GpuFacts &facts); // the first is unchanged

using Cycles = std::array<uint32_t, kClocks>; // by model

// Cycles that a wave's instructions take of a unit; the models differ in latencies alone.
struct Work {
    uint64_t vector = 0, matrix = 0, transcendental = 0, lds = 0, address = 0;
};

class WaveClock {
  public:
    void reset();
    // Returns for how many cycles the instruction stalled in the first model.
    uint32_t count(const Wave &wave, const Instruction &instruction, const Access &access, Level level,
                   const std::array<Model, kClocks> &models);
    const Cycles &now() const { return now_; }
    // For what the last instruction, a wait, stalled in the first model; null if it did not.
    const Instruction *waited_for() const { return waited_for_; }
    void set_now(const Cycles &now) { now_ = now; }
    const Work &work() const { return work_; }

  private:
    struct InFlight {
        Cycles back; // when it returns
        const Instruction *instruction;
    };
    struct Queue { // the oldest first
        std::vector<InFlight> accesses;
        void add(Cycles back, const Instruction &instruction);
    };
    void issue(const Wave &wave, const Instruction &instruction, const Access &access, Level level,
               const std::array<Model, kClocks> &models);
    void need(const Operand &operand);
    void need_all(const Instruction &instruction, size_t first);
    void issue_arithmetic(const Wave &wave, const Instruction &instruction, const GpuFacts &facts);
    void issue_memory(const Wave &wave, const Instruction &instruction, const Access &access, Level level,
                      const std::array<Model, kClocks> &models);
    void issue_lds(const Wave &wave, const Instruction &instruction, const Access &access,
                   const std::array<Model, kClocks> &models);
    void issue_scalar_load(const Wave &wave, const Instruction &instruction, Level level,
                           const std::array<Model, kClocks> &models);
    void wait(const Instruction &instruction);

    const Instruction *waited_for_ = nullptr;
    uint32_t stalled_until_ = 0;                                 // of the last instruction, in the first model
    Cycles now_, address_unit_, lds_unit_, transcendental_unit_; // units: when they are free
    std::array<Cycles, kTemporaryRegisters> ready_;              // by vector register
    std::array<Queue, size_t(Counter::count)> queues_;
    Work work_;
};

} // namespace execute
