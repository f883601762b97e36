// The types that K and V may be cached in: what they take, what each was measured to cost, and which to take.
#pragma once

#include "tools/estimate/report.hpp"

namespace vkattn::tools {

// How much more perplexity a model had than with K and V in f16, in percent, with the standard error of that.
struct MeasuredCost {
    vkattn_type key_type;
    vkattn_type value_type;
    bool rotated;
    double percent;
    double error;
};

struct CacheChoice {
    MeasuredCost cost{};
    std::uint64_t bytes_per_token = 0; // of one sequence
    std::uint64_t bytes = 0;           // of the whole batch
    std::uint64_t max_context_len = 0; // 0: memory_bytes is 0, or the weights alone do not fit it
    bool fits = false;                 // false where memory_bytes is 0
};

// What was measured: the model, the text, the driver and the day.
std::string measured_on();

// Returns what an estimate's cache may be held in, by falling bytes; nothing for latents, of which no cost was measured,
// and for layers without a cache.
std::vector<CacheChoice> cache_choices(const Estimate &estimate);

// Says in sentences which types to take: where a memory is given, the cheapest that fits it.
std::vector<std::string> cache_advice(std::span<const Estimate> estimates);

// Returns the words of a table: a row of titles, then a row for each pair of types, with a column for each estimate that
// has choices. Nothing where none has.
std::vector<std::vector<std::string>> cache_table(std::span<const Estimate> estimates);

} // namespace vkattn::tools
