// What a model of time takes for granted of a GPU.
#pragma once
#include <cstdint>
#include <string>

namespace execute {

struct GpuFacts {
    const char *name;
    // From data sheets.
    uint32_t compute_units;
    uint32_t simds; // of a compute unit
    double gigahertz;
    double memory_gbs;                   // GB/s
    uint64_t l2_bytes, last_level_bytes; // last level: the cache between L2 and memory; 0: there is none
    // From the ISA documents and LLVM's tables.
    uint32_t vector_registers; // of a SIMD's lane, of 32 lanes
    uint32_t register_granule; // in which a wave of 32 lanes gets them
    uint32_t waves_of_simd;    // at most
    uint32_t matrix_cycles;    // of a product of 16 x 16 x 16
    // Estimates.
    double l2_gbs, last_level_gbs;
    double dram_ns = 500, last_level_ns = 250, l2_ns = 150; // from a load's issue to its data, under load
    double workgroup_ns = 50;                               // of a line that the workgroup has had already
    double scalar_ns = 30;                                  // the same of scalar loads
    bool scalar_loads_reach_l2 = false;                     // and no further: their lines are in L2 before the dispatch
    uint32_t lds_cycles = 50;                               // from an access to its data, without conflicts
};

constexpr uint32_t kLdsBytesOfUnit = 65536;

// Ends the program with a line if they are not known.
const GpuFacts &gpu_facts(const std::string &name);

} // namespace execute
