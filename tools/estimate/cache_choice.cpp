#include "tools/estimate/cache_choice.hpp"

#include "tools/estimate/measured_costs.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/text.hpp"
#include "tools/tensors/stored_types.hpp"

#include <algorithm>

namespace vkattn::tools {
namespace {

constexpr std::uint64_t kBlockElements = 32; // of a type that is no plain float: head sizes are multiples of it

std::uint64_t head_size(const vkattn_layer_config &config) {
    return config.head_dim != 0 ? config.head_dim : config.embed_dim / config.num_heads;
}

std::uint64_t bytes_in(const Estimate &estimate, vkattn_type type) {
    vkattn_estimate_info info = estimate.info;
    info.cache_type = type;
    info.key_scaling = info.value_scaling = VKATTN_SCALING_NONE; // measured without scales
    vkattn_estimate_result result{};
    if (vkattn_estimate(&estimate.model.config, &info, &result) != VKATTN_SUCCESS)
        throw InputError(estimate.model.name, vkattn_last_error());
    return result.cache_bytes_per_token;
}

CacheChoice choice_of(const Estimate &estimate, const MeasuredCost &cost) {
    const vkattn_estimate_info &info = estimate.info;
    CacheChoice choice;
    choice.cost = cost;
    choice.bytes_per_token = bytes_in(estimate, cost.key_type) / 2 + bytes_in(estimate, cost.value_type) / 2;
    choice.bytes = choice.bytes_per_token * info.batch * info.context_len;
    if (info.memory_bytes == 0 || estimate.result.weight_bytes > info.memory_bytes) return choice;
    const std::uint64_t room = info.memory_bytes - estimate.result.weight_bytes;
    choice.max_context_len = room / (choice.bytes_per_token * info.batch);
    choice.fits = choice.bytes <= room;
    return choice;
}

// Whether it is nothing but the error of the measurement, and at most a quarter of a percent with it.
bool is_free(const MeasuredCost &cost) {
    return cost.percent <= 2 * cost.error && cost.percent + 2 * cost.error <= 0.25;
}

std::string percent_text(const MeasuredCost &cost, const std::string &error = "") {
    return (cost.percent < 0 ? "" : "+") + decimals(cost.percent, 2) + error + " %";
}

std::string choice_text(const MeasuredCost &cost) {
    const std::string key = type_name(cost.key_type), value = type_name(cost.value_type);
    return cost.key_type != cost.value_type ? "K in " + key + " and V in " + value
                                            : (cost.rotated ? "rotated K and V in " : "K and V in ") + key;
}

std::string cost_text(const MeasuredCost &cost) {
    if (cost.error == 0) return "what the others are compared with";
    return (is_free(cost) ? "no cost that could be measured, " : "") +
           percent_text(cost, " ± " + decimals(cost.error, 2)) + " of perplexity";
}

const CacheChoice *cheapest(const std::vector<CacheChoice> &choices, std::uint64_t most_bytes) {
    const CacheChoice *found = nullptr;
    for (const CacheChoice &choice : choices)
        if (choice.bytes <= most_bytes && (found == nullptr || choice.cost.percent < found->cost.percent))
            found = &choice;
    return found;
}

// The smallest that costs at most so much; of several of a size the cheapest.
const CacheChoice *smallest(const std::vector<CacheChoice> &choices, double most_percent) {
    const CacheChoice *found = nullptr;
    for (const CacheChoice &choice : choices) {
        if (choice.cost.percent > most_percent) continue;
        if (found == nullptr || choice.bytes < found->bytes ||
            (choice.bytes == found->bytes && choice.cost.percent < found->cost.percent))
            found = &choice;
    }
    return found;
}

// What fits the memory where the estimate's own type does not.
std::string fitting_advice(const Estimate &estimate, const std::vector<CacheChoice> &choices) {
    const std::uint64_t room = estimate.info.memory_bytes - estimate.result.weight_bytes;
    if (const CacheChoice *best = cheapest(choices, room))
        return estimate.model.name + " fits with " + choice_text(best->cost) + ", whose cache is " +
               format_bytes(best->bytes) + " rather than " + format_bytes(estimate.result.cache_bytes) + ": " +
               cost_text(best->cost) + ".";
    const CacheChoice &least = *smallest(choices, 1e9);
    return estimate.model.name + " fits with no type of K and V; the longest context is that of " +
           choice_text(least.cost) + ", " + format_grouped(least.max_context_len) + " tokens.";
}

// Where something costs less and takes no more than the type that is asked for: that, else "".
std::string better_advice(const Estimate &estimate, const std::vector<CacheChoice> &choices) {
    const vkattn_type asked = estimate.info.cache_type;
    const auto own = std::ranges::find_if(choices, [asked](const CacheChoice &choice) {
        return choice.cost.key_type == asked && choice.cost.value_type == asked && !choice.cost.rotated;
    });
    if (own == choices.end() || is_free(own->cost)) return "";
    const CacheChoice &best = *cheapest(choices, own->bytes);
    if (best.cost.percent >= own->cost.percent) return "";
    return estimate.model.name + ": " + choice_text(own->cost) + " cost " + percent_text(own->cost) +
           " of perplexity; " + choice_text(best.cost) +
           (best.bytes < own->bytes ? " take less: " : " take as much: ") + cost_text(best.cost) + ".";
}

// The smallest of what costs nothing, at most 1 % and at most 5 %, by its share of f16's bytes: the same for every model.
std::string general_advice(const std::vector<CacheChoice> &choices) {
    double unmeasured = 0; // the most that could not be measured
    for (const CacheChoice &choice : choices)
        if (is_free(choice.cost)) unmeasured = std::max(unmeasured, choice.cost.percent);
    std::string text;
    const CacheChoice *last = &choices.front();
    for (const double percent : {unmeasured, 1.0, 5.0}) {
        const CacheChoice *next = smallest(choices, percent);
        if (next->bytes >= last->bytes) continue;
        const double share = 100 * static_cast<double>(next->bytes) / static_cast<double>(choices.front().bytes);
        text += (text.empty() ? "Of the bytes of f16, " : ", ") + choice_text(next->cost) +
                (text.empty() ? " take " : " ") + decimals(share, 0) + " % (" + cost_text(next->cost) + ")";
        last = next;
    }
    return text.empty() ? "" : text + ".";
}

} // namespace

std::string measured_on() { return kMeasuredOn; }

std::vector<CacheChoice> cache_choices(const Estimate &estimate) {
    std::vector<CacheChoice> choices;
    if (!estimate.has_cache() || estimate.model.config.kind != VKATTN_LAYER_MHA) return choices;
    const bool whole_blocks = head_size(estimate.model.config) % kBlockElements == 0;
    for (const MeasuredCost &cost : kMeasuredCosts)
        if (whole_blocks || (is_float(cost.key_type) && is_float(cost.value_type)))
            choices.push_back(choice_of(estimate, cost));
    std::ranges::stable_sort(choices, [](const CacheChoice &a, const CacheChoice &b) { return a.bytes > b.bytes; });
    return choices;
}

std::vector<std::string> cache_advice(std::span<const Estimate> estimates) {
    std::vector<std::string> sentences;
    std::string general;
    for (const Estimate &estimate : estimates) {
        const std::vector<CacheChoice> choices = cache_choices(estimate);
        if (choices.empty()) continue;
        if (general.empty()) general = general_advice(choices);
        const bool asks = estimate.info.memory_bytes != 0 && estimate.result.weight_bytes <= estimate.info.memory_bytes;
        const std::string own =
            asks && !estimate.fits() ? fitting_advice(estimate, choices) : better_advice(estimate, choices);
        if (!own.empty()) sentences.push_back(own);
    }
    if (!general.empty()) sentences.push_back(general);
    return sentences;
}

std::vector<std::vector<std::string>> cache_table(std::span<const Estimate> estimates) {
    std::vector<std::vector<CacheChoice>> columns;
    std::vector<std::vector<std::string>> rows{{"K, V in", "perplexity", "rotated"}};
    for (const Estimate &estimate : estimates) {
        std::vector<CacheChoice> choices = cache_choices(estimate);
        if (choices.empty()) continue;
        columns.push_back(std::move(choices));
        rows.front().push_back(estimate.model.name);
    }
    if (columns.empty()) return {};
    const auto same = [](const MeasuredCost &a, const MeasuredCost &b) {
        return a.key_type == b.key_type && a.value_type == b.value_type;
    };
    for (const MeasuredCost &cost : kMeasuredCosts) {
        if (cost.rotated) continue;
        std::string rotated = "-";
        for (const MeasuredCost &other : kMeasuredCosts)
            if (other.rotated && same(cost, other)) rotated = percent_text(other);
        const std::string key = type_name(cost.key_type), value = type_name(cost.value_type);
        std::vector<std::string> row{key == value ? key : key + ", " + value,
                                     cost.error == 0 ? "-" : percent_text(cost), rotated};
        for (const std::vector<CacheChoice> &choices : columns) {
            const auto found =
                std::ranges::find_if(choices, [&](const CacheChoice &choice) { return same(choice.cost, cost); });
            row.push_back(found == choices.end() ? "-" : format_bytes(found->bytes));
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

} // namespace vkattn::tools
