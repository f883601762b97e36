#include "estimate_report.hpp"

#include "input_error.hpp"

#include <algorithm>
#include <bit>

namespace vkattn::tools {
namespace {

std::string common_text(std::span<const Estimate> estimates) {
    const vkattn_estimate_info &info = estimates.front().info;
    const auto same = [&](auto member) {
        return std::ranges::all_of(estimates, [&](const Estimate &e) { return e.info.*member == info.*member; });
    };
    std::string text;
    if (same(&vkattn_estimate_info::num_layers))
        text += std::to_string(info.num_layers) + (info.num_layers == 1 ? " layer" : " layers");
    if (same(&vkattn_estimate_info::weight_type))
        text += (text.empty() ? "" : ", ") + ("weights in " + estimate_type_name(info.weight_type));
    if (same(&vkattn_estimate_info::cache_type))
        text += (text.empty() ? "" : ", ") + ("cache in " + estimate_type_name(info.cache_type));
    return text;
}

std::string batch_text(std::uint32_t batch) {
    return batch == 1 ? "one sequence" : format_grouped(batch) + " sequences";
}

// From a 32nd of the context to four times it, by powers of two, so that the context itself lies well inside.
std::vector<std::uint64_t> chart_lengths(std::uint64_t context_len) {
    constexpr std::uint64_t kLongest = std::uint64_t{1} << 40;
    const std::uint64_t middle = std::bit_floor(std::min(context_len, kLongest));
    std::vector<std::uint64_t> lengths;
    for (std::uint64_t len = std::max<std::uint64_t>(1, middle / 32); len <= middle * 4; len *= 2)
        lengths.push_back(len);
    return lengths;
}

} // namespace

svg::LineChart cache_chart(std::span<const Estimate> estimates) {
    const vkattn_estimate_info &info = estimates.front().info;
    svg::LineChart chart;
    chart.title = "KV cache against context length";
    chart.subtitle = batch_text(info.batch) + "; " + common_text(estimates);
    chart.x = {"tokens of each sequence", Unit::kTokens, svg::Scale::kLog};
    chart.y = {"bytes of cache", Unit::kBytes, svg::Scale::kLog};
    chart.x_lines = {{"context " + format_value(static_cast<double>(info.context_len), Unit::kTokens),
                      static_cast<double>(info.context_len)}};
    if (info.memory_bytes != 0) {
        const auto memory = static_cast<double>(info.memory_bytes);
        chart.y_lines = {{"memory " + format_value(memory, Unit::kBytes) + ", weights not subtracted", memory}};
    }
    for (const Estimate &estimate : estimates) {
        if (!estimate.has_cache()) continue;
        svg::Series series{clean_line(estimate.model.name), {}};
        const double of_one_length = static_cast<double>(estimate.result.cache_bytes_per_token) * estimate.info.batch;
        for (const std::uint64_t len : chart_lengths(info.context_len))
            series.points.push_back({static_cast<double>(len), of_one_length * static_cast<double>(len)});
        chart.series.push_back(std::move(series));
    }
    return chart;
}

svg::BarChart variants_chart(std::span<const Estimate> estimates) {
    const vkattn_estimate_info &info = estimates.front().info;
    svg::BarChart chart;
    chart.title = "Parameters and KV cache by variant";
    chart.subtitle = common_text(estimates);
    svg::BarPanel parameters{"Parameters", Unit::kCount, {}};
    svg::BarPanel cache{"KV cache of " + batch_text(info.batch) + " of " +
                            format_value(static_cast<double>(info.context_len), Unit::kTokens) + " tokens",
                        Unit::kBytes,
                        {}};
    for (const Estimate &estimate : estimates) {
        chart.categories.push_back(clean_line(estimate.model.name));
        parameters.values.push_back(static_cast<double>(estimate.result.parameters));
        cache.values.push_back(static_cast<double>(estimate.result.cache_bytes));
    }
    chart.panels = {std::move(parameters), std::move(cache)};
    return chart;
}

} // namespace vkattn::tools
