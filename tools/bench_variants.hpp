// Layers of the same width side by side, measured: a causal prefill and one decode step.
#pragma once

#include "bench_measure.hpp"
#include "commands.hpp"

#include <vkattn/estimate.h>

namespace vkattn::tools {

struct VariantResult {
    std::string name;
    vkattn_estimate_result estimate{};
    Statistics prefill, decode; // milliseconds
    std::string prefill_kernel, decode_kernel;
    bool by_gpu = false;
};

// Fails, naming it, unless every one of options.variants is one that can be measured. Throws InputError.
void check_variants(const BenchOptions &options);

// Of options.variants, by d_model, heads, len, batch and dtype. Throws InputError.
std::vector<VariantResult> measure_variants(const Context &context, const BenchOptions &options, vkattn_kernel kernel);

} // namespace vkattn::tools
