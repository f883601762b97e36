// A modelled time of a dispatch: the largest of what its units take and of its longest chain of waits. It ranks; nothing of
// it was measured (docs/performance.md).
#pragma once
#include "dispatch.hpp"
#include "wave_clock.hpp"

#include <string>

namespace execute {

enum class Component : uint8_t { vector, matrix, transcendental, lds, address, chain, l2, last_level, dram, count };
const char *component_name(Component component);
using Components = std::array<double, size_t(Component::count)>; // microseconds; vector holds matrix, too

// How many workgroups a compute unit holds. In workgroup-processor mode two of RDNA's are one unit.
struct Occupancy {
    uint32_t units, simds, shared_units; // shared: LDS and address units of a unit
    uint32_t waves_of_simd, workgroups;
};
Occupancy occupancy(const Dispatch &dispatch, uint32_t waves, const GpuFacts &facts, int generation);

// For how many cycles an instruction stalled in the first model, and of a wait for which access.
struct Stall {
    uint32_t cycles = 0;
    const Instruction *access = nullptr;
};

class ModelledTime {
  public:
    explicit ModelledTime(const GpuFacts &facts);
    void begin_submission() { lines_.begin_submission(); }
    void begin_dispatch(const Dispatch &dispatch, int generation);
    void begin_workgroup();
    Stall count(const Wave &wave, const Instruction &instruction, const Access &access);
    void pass_barrier(const Workgroup &group);
    void end_workgroup(const Workgroup &group);
    std::string end_dispatch(); // as a value of JSON

  private:
    struct GroupCost {
        Cycles chain;
        std::vector<Work> waves;
    };
    Components components(size_t model, const Occupancy &occupancy, const Traffic &traffic) const;
    Level touch(const Instruction &instruction, const Access &access);

    const GpuFacts &facts_;
    std::array<Model, kClocks> models_;
    MemoryLines lines_;
    Dispatch dispatch_;
    int generation_ = kRdna3;
    std::vector<WaveClock> clocks_; // by the wave's id
    std::vector<GroupCost> groups_;
};

} // namespace execute
