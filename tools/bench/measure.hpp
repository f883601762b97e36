// What the benchmarks share: random values, timed runs and their statistics.
#pragma once

#include "tools/peaks/peaks.hpp"
#include "tools/tensors/safetensors.hpp"

#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
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

// How one operation did.
struct OperationTimes {
    std::string kernel;
    std::string reason;
    std::uint32_t runs = 0;
    std::uint32_t input_sets = 0;
    std::uint64_t workspace_bytes = 0;
    double first_dispatch_ms = 0.0; // the plan, with its pipelines, and the first run
    bool by_gpu = false;
    Statistics best; // by the GPU's clock where it has one
    Statistics wall;
    double flops = 0.0;      // of what must be computed
    double bytes = 0.0;      // of every tensor once
    bool of_16_bits = false; // inputs that matrix units take

    // A timestamp of coarse ticks can read 0.
    double seconds() const { return std::max(best.median, 1e-6) / 1e3; }
    double gflops() const { return flops / seconds() / 1e9; }
    double gbytes_per_s() const { return bytes / seconds() / 1e9; }
    double peak_flops(const Peaks &peaks) const {
        return of_16_bits ? std::max(peaks.matrix_flops_per_second, peaks.flops_per_second) : peaks.flops_per_second;
    }
    bool bound_by_memory(const Peaks &peaks) const {
        return bytes / peaks.bytes_per_second > flops / peak_flops(peaks);
    }
    // What no kernel beats on a device of these peaks: the slower of arithmetic and memory.
    double bound_seconds(const Peaks &peaks) const {
        return std::max(flops / peak_flops(peaks), bytes / peaks.bytes_per_second);
    }
};

// A plan's buffers.
struct InputSet {
    std::vector<Buffer> buffers;
    std::vector<vkattn_binding> bindings;

    Buffer &add(const Context &context, vkattn_role role, std::uint64_t bytes);
};

class Progress;

struct RepeatOptions {
    std::uint32_t input_sets = 0; // 0: several, as memory allows
    std::uint32_t repeat = 0;     // 0: as many as take so many seconds
    double seconds = 3.0;
    Progress *progress = nullptr; // is told of the runs
};

// What timing an operation whose runs take so long takes in all, about: its runs, and those before them.
double seconds_to_time(const RepeatOptions &options, double run_ms);

// Plans, and times the plan over several input sets in turn, so that a cache does not flatter, as many as fit a quarter
// of the device's memory. bytes: of a set, without workspace. Fills in all but flops, of_16_bits and what the kernel is
// called.
OperationTimes time_operation(const Context &context, const RepeatOptions &options, double bytes,
                              const std::function<Plan()> &make_plan,
                              const std::function<InputSet(unsigned seed)> &make_inputs);

} // namespace vkattn::tools
