// One attention problem on random inputs, timed.
#pragma once

#include "bench_measure.hpp"
#include "commands.hpp"

namespace vkattn::tools {

struct AttentionTimes {
    std::string kernel;
    std::string reason;
    std::size_t runs = 0;
    std::size_t input_sets = 0;
    std::uint64_t workspace_bytes = 0;
    double first_dispatch_ms = 0.0; // the plan, with its pipelines, and the first run
    bool by_gpu = false;
    Statistics best; // by the GPU's clock where it has one
    Statistics wall;
    double flops = 0.0;      // of the query-key pairs that the mask leaves
    double bytes = 0.0;      // of every tensor once
    bool of_16_bits = false; // queries, that matrix units take

    // A timestamp of coarse ticks can read 0.
    double seconds() const { return std::max(best.median, 1e-6) / 1e3; }
    double gflops() const { return flops / seconds() / 1e9; }
    double gbytes_per_s() const { return bytes / seconds() / 1e9; }
    double peak_flops(const vkattn_peaks &peaks) const {
        return of_16_bits ? std::max(peaks.matrix_flops_per_second, peaks.flops_per_second) : peaks.flops_per_second;
    }
    bool bound_by_memory(const vkattn_peaks &peaks) const {
        return bytes / peaks.bytes_per_second > flops / peak_flops(peaks);
    }
    // What no kernel beats on a device of these peaks: the slower of arithmetic and memory.
    double bound_seconds(const vkattn_peaks &peaks) const {
        return std::max(flops / peak_flops(peaks), bytes / peaks.bytes_per_second);
    }
};

// Of the options: repeat and input_sets. Throws InputError, and Error of the library.
AttentionTimes time_attention(const Context &context, const AttentionShape &shape, const BenchOptions &options,
                              vkattn_kernel kernel);

} // namespace vkattn::tools
