// The estimates of several layers, side by side: in words and figures.
#pragma once

#include "tools/estimate/model.hpp"
#include "tools/io/units.hpp"

#include <ostream>

namespace vkattn::tools {

struct Estimate {
    EstimateModel model;
    vkattn_estimate_info info{}; // as estimated, no member left at a default but memory_bytes
    vkattn_estimate_result result{};
    // of one layer, the batch, on a device: see measure_workspaces
    std::optional<std::uint64_t> prefill_workspace{}, step_workspace{};

    bool has_cache() const { return result.cache_bytes_per_token != 0; }
    std::uint64_t state_bytes() const { return model.state_bytes * info.batch; }
    std::uint64_t bytes_needed() const { return result.weight_bytes + result.cache_bytes + state_bytes(); }
    bool fits() const { return bytes_needed() <= info.memory_bytes; }
};

// Estimates each model for the use; what the use leaves open is taken from the model. scales_rows: every token and head of keys,
// and of values, has a scale in the cache. Throws InputError.
std::vector<Estimate> estimate_all(std::span<const EstimateModel> models, const vkattn_estimate_info &use,
                                   bool scales_rows = false);

// Says which fit the memory, which serves the most sequences and why: one sentence a line. Needs memory_bytes.
std::vector<std::string> verdict(std::span<const Estimate> estimates);

void print_table(std::ostream &out, std::span<const Estimate> estimates);
void print_json(std::ostream &out, std::span<const Estimate> estimates);
void print_csv(std::ostream &out, std::span<const Estimate> estimates);

} // namespace vkattn::tools
