// What the benchmarks share: random values, timed runs and their statistics.
#pragma once

#include "safetensors.hpp"

#include <vkattn/vkattn.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vkattn::tools {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start);

// Normal random values without end, made once: filling gigabytes value by value would take longer than the benchmark.
class RandomValues {
  public:
    explicit RandomValues(unsigned seed, double deviation = 1.0);
    void fill(Buffer &buffer, Dtype dtype, std::uint64_t bytes) const;
    std::vector<std::byte> bytes(Dtype dtype, std::uint64_t count) const;

  private:
    std::vector<double> values_;
};

// Milliseconds of one run; gpu_ms is negative where the device has no timestamps.
struct Sample {
    double gpu_ms = -1.0;
    double wall_ms = 0.0;
};

Sample run_once(const Plan &plan, std::span<const vkattn_binding> bindings);

struct Statistics {
    double median = 0.0;
    double min = 0.0;
    double max = 0.0;
    double spread_percent() const { return median > 0.0 ? (max - min) / median * 100.0 : 0.0; }
};

// Of at least one value.
Statistics statistics(std::vector<double> values);

} // namespace vkattn::tools
