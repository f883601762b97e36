// Sources: compute units, clocks, memory and caches: AMD's product pages and white papers of the cards named. The clock is the
// one that AMD gives for games, else the boost clock. Registers and waves: AMD's ISA documents and LLVM's AMDGPU usage
// page. Matrix cycles: what the peak of f16 matrices that AMD states makes of one product. Bandwidths of caches: bytes a
// cycle of AMD's slides, or what microbenchmarks of Chips and Cheese reached where the slides say more. Latencies under load
// are guesses, about twice those of an idle card that the same microbenchmarks show: their sensitivity is part of the result.
#include "gpu_facts.hpp"

#include "findings.hpp"

namespace execute {
namespace {

constexpr uint64_t kMega = 1 << 20;

constexpr GpuFacts kFacts[] = {
    {.name = "polaris10", // Radeon RX 580
     .compute_units = 36,
     .simds = 4,
     .gigahertz = 1.34,
     .memory_gbs = 256,
     .l2_bytes = 2 * kMega,
     .last_level_bytes = 0,
     .vector_registers = 512,
     .register_granule = 8,
     .waves_of_simd = 10,
     .matrix_cycles = 0,
     .l2_gbs = 700,
     .last_level_gbs = 0},
    {.name = "vega10", // Radeon RX Vega 64
     .compute_units = 64,
     .simds = 4,
     .gigahertz = 1.546,
     .memory_gbs = 484,
     .l2_bytes = 4 * kMega,
     .last_level_bytes = 0,
     .vector_registers = 512,
     .register_granule = 8,
     .waves_of_simd = 10,
     .matrix_cycles = 0,
     .l2_gbs = 1400,
     .last_level_gbs = 0},
    {.name = "navi10", // Radeon RX 5700 XT
     .compute_units = 40,
     .simds = 2,
     .gigahertz = 1.755,
     .memory_gbs = 448,
     .l2_bytes = 4 * kMega,
     .last_level_bytes = 0,
     .vector_registers = 1024,
     .register_granule = 8,
     .waves_of_simd = 20,
     .matrix_cycles = 0,
     .l2_gbs = 1800,
     .last_level_gbs = 0},
    {.name = "navi21", // Radeon RX 6800
     .compute_units = 60,
     .simds = 2,
     .gigahertz = 1.815,
     .memory_gbs = 512,
     .l2_bytes = 4 * kMega,
     .last_level_bytes = 128 * kMega,
     .vector_registers = 1024,
     .register_granule = 16,
     .waves_of_simd = 16,
     .matrix_cycles = 0,
     .l2_gbs = 3600,
     .last_level_gbs = 1900},
    {.name = "navi31", // Radeon RX 7900 XTX
     .compute_units = 96,
     .simds = 2,
     .gigahertz = 2.3,
     .memory_gbs = 960,
     .l2_bytes = 6 * kMega,
     .last_level_bytes = 96 * kMega,
     .vector_registers = 1536,
     .register_granule = 24,
     .waves_of_simd = 16,
     .matrix_cycles = 32,
     .l2_gbs = 5000,
     .last_level_gbs = 3000},
    {.name = "strix1", // Radeon 890M, LPDDR5X-7500
     .compute_units = 16,
     .simds = 2,
     .gigahertz = 2.9,
     .memory_gbs = 120,
     .l2_bytes = 2 * kMega,
     .last_level_bytes = 0,
     .vector_registers = 1024,
     .register_granule = 16,
     .waves_of_simd = 16,
     .matrix_cycles = 32,
     .l2_gbs = 1000,
     .last_level_gbs = 0},
    {.name = "gfx1201", // Radeon RX 9070 XT
     .compute_units = 64,
     .simds = 2,
     .gigahertz = 2.4,
     .memory_gbs = 640,
     .l2_bytes = 8 * kMega,
     .last_level_bytes = 64 * kMega,
     .vector_registers = 1536,
     .register_granule = 24,
     .waves_of_simd = 16,
     .matrix_cycles = 16,
     .l2_gbs = 4000,
     .last_level_gbs = 2500},
};

} // namespace

const GpuFacts &gpu_facts(const std::string &name) {
    for (const GpuFacts &facts : kFacts)
        if (name == facts.name) return facts;
    stop("model: nothing is known of the GPU '" + name + "' (gpu_facts.cpp)");
}

} // namespace execute
