#include "runtime/ops/rope.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace vkattn {

namespace {

constexpr double kTau = 6.28318530717958647693;

// Llama 3.1: wavelengths well above the original length are stretched, well below it kept.
double llama3_frequency(double radians, const vkattn_rope_scaling &scaling) {
    const double length = scaling.original_max_position;
    const double low = static_cast<double>(scaling.low_freq_factor),
                 high = static_cast<double>(scaling.high_freq_factor);
    const double factor = static_cast<double>(scaling.factor);
    const double rotations = length * radians / kTau;
    if (rotations > high) return radians;
    if (rotations < low) return radians / factor;
    const double smooth = (rotations - low) / (high - low);
    return (1 - smooth) * radians / factor + smooth * radians;
}

// The pair that turns `rotations` times within the original length, as a real number.
double yarn_correction(double rotations, uint32_t dims, double theta, const vkattn_rope_scaling &scaling) {
    return dims * std::log(scaling.original_max_position / (rotations * kTau)) / (2 * std::log(theta));
}

double yarn_frequency(double radians, uint32_t pair, uint32_t dims, double theta, const vkattn_rope_scaling &scaling) {
    const double fast = scaling.beta_fast != 0 ? static_cast<double>(scaling.beta_fast) : 32.0;
    const double slow = scaling.beta_slow != 0 ? static_cast<double>(scaling.beta_slow) : 1.0;
    const double low = std::max(std::floor(yarn_correction(fast, dims, theta, scaling)), 0.0);
    double high = std::min(std::ceil(yarn_correction(slow, dims, theta, scaling)), dims - 1.0);
    if (high == low) high += 0.001; // as in the paper's code: no division by zero
    const double stretched = std::clamp((pair - low) / (high - low), 0.0, 1.0);
    return radians / static_cast<double>(scaling.factor) * stretched + radians * (1 - stretched);
}

double scaled_frequency(double radians, uint32_t pair, uint32_t dims, double theta,
                        const vkattn_rope_scaling &scaling) {
    switch (scaling.kind) {
    case VKATTN_ROPE_LINEAR:
        return radians / static_cast<double>(scaling.factor);
    case VKATTN_ROPE_LLAMA3:
        return llama3_frequency(radians, scaling);
    case VKATTN_ROPE_YARN:
        return yarn_frequency(radians, pair, dims, theta, scaling);
    case VKATTN_ROPE_LONGROPE:
        return radians / static_cast<double>(scaling.factors[pair]);
    default:
        return radians;
    }
}

float attention_factor(const vkattn_rope_scaling &scaling) {
    const bool is_yarn = scaling.kind == VKATTN_ROPE_YARN;
    if (!is_yarn && scaling.kind != VKATTN_ROPE_LONGROPE) return 1.0f;
    if (scaling.attention_factor != 0) return scaling.attention_factor;
    if (scaling.factor <= 1) return 1.0f;
    const double stretch = std::log(static_cast<double>(scaling.factor));
    return static_cast<float>(
        is_yarn ? 0.1 * stretch + 1.0
                : std::sqrt(1.0 + stretch / std::log(static_cast<double>(scaling.original_max_position))));
}

void check_longrope(const vkattn_rope_scaling &scaling, uint32_t pairs) {
    require(scaling.original_max_position > 1, "rope_scaling: original_max_position 1, expected at least 2");
    require(scaling.factors != nullptr, "rope_scaling: factors NULL, expected ", pairs, " numbers");
    require(scaling.factor_count == pairs, "rope_scaling: ", scaling.factor_count, " factors, expected ", pairs,
            ", one for each pair of elements");
    for (const float factor : std::span(scaling.factors, scaling.factor_count))
        require(std::isfinite(factor) && factor > 0, "rope_scaling: a factor ", factor,
                ", expected finite numbers above 0");
}

} // namespace

void check_rope_scaling(const vkattn_rope_scaling &scaling, uint32_t pairs) {
    require(scaling.kind >= VKATTN_ROPE_UNSCALED && scaling.kind <= VKATTN_ROPE_LONGROPE, "rope_scaling: kind ",
            static_cast<int>(scaling.kind), ", expected a vkattn_rope_scaling_kind");
    require(scaling.kind == VKATTN_ROPE_LONGROPE || scaling.factors == nullptr,
            "rope_scaling: factors given, expected none but for LONGROPE");
    if (scaling.kind == VKATTN_ROPE_UNSCALED) return;
    require(scaling.factor > 0 && std::isfinite(scaling.factor), "rope_scaling: factor ", scaling.factor,
            ", expected a finite number above 0");
    if (scaling.kind == VKATTN_ROPE_LINEAR) return;
    require(scaling.original_max_position > 0, "rope_scaling: original_max_position 0, expected at least 1");
    require(scaling.kind == VKATTN_ROPE_LLAMA3 ||
                (std::isfinite(scaling.attention_factor) && scaling.attention_factor >= 0),
            "rope_scaling: attention_factor ", scaling.attention_factor,
            ", expected a finite number >= 0, 0 for the kind's own");
    if (scaling.kind == VKATTN_ROPE_LLAMA3)
        require(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor,
                "rope_scaling: low_freq_factor ", scaling.low_freq_factor, ", high_freq_factor ",
                scaling.high_freq_factor, ", expected 0 < low < high");
    if (scaling.kind == VKATTN_ROPE_YARN)
        require(scaling.beta_fast >= 0 && scaling.beta_slow >= 0, "rope_scaling: beta_fast ", scaling.beta_fast,
                ", beta_slow ", scaling.beta_slow, ", expected numbers >= 0");
    if (scaling.kind == VKATTN_ROPE_LONGROPE) check_longrope(scaling, pairs);
}

uint32_t position_streams(const vkattn_layer_config &config) {
    uint32_t streams = VKATTN_ROPE_SECTIONS;
    while (streams > 1 && config.rope_sections[streams - 1] == 0) --streams;
    return streams;
}

void check_rope_sections(const vkattn_layer_config &config, uint32_t pairs) {
    require(config.rope_sections_interleaved <= 1, "rope_sections_interleaved: ", config.rope_sections_interleaved,
            ", expected 0 or 1");
    const std::span<const uint32_t> sections = config.rope_sections;
    const uint64_t sum = std::accumulate(sections.begin(), sections.end(), uint64_t{0});
    require(sum == 0 || sum == pairs, "rope_sections: ", sum, " pairs in all, expected ", pairs,
            ", half the elements that are rotated, or none");
    if (config.rope_sections_interleaved == 0) return;
    const uint32_t streams = position_streams(config);
    for (uint32_t stream = 1; stream < streams; ++stream) {
        const uint32_t most = (pairs + streams - 1 - stream) / streams;
        require(sections[stream] <= most, "rope_sections: ", sections[stream], " pairs of stream ", stream,
                ", expected at most ", most, " of ", pairs, " pairs that ", streams, " streams interleave");
    }
}

namespace {

// The stream of positions that a pair turns by.
uint32_t stream_of(uint32_t pair, const vkattn_layer_config &config) {
    const uint32_t streams = position_streams(config);
    if (streams == 1) return 0;
    if (config.rope_sections_interleaved != 0)
        return pair / streams < config.rope_sections[pair % streams] ? pair % streams : 0;
    uint32_t stream = 0;
    for (uint32_t end = config.rope_sections[0]; pair >= end; end += config.rope_sections[++stream]) {
    }
    return stream;
}

} // namespace

std::vector<RopeFrequency> rope_frequencies(uint32_t dims, const vkattn_layer_config &config) {
    constexpr double kWord = 4294967296.0;
    const double theta = static_cast<double>(config.rope_theta);
    const vkattn_rope_scaling &scaling = config.rope_scaling;
    std::vector<RopeFrequency> frequencies(dims / 2);
    for (uint32_t pair = 0; pair < frequencies.size(); ++pair) {
        const double radians = scaled_frequency(std::pow(theta, -2.0 * pair / dims), pair, dims, theta, scaling);
        const double turns = radians / kTau - std::floor(radians / kTau);
        const double high = std::floor(turns * kWord);
        frequencies[pair] = {static_cast<uint32_t>((turns * kWord - high) * kWord), static_cast<uint32_t>(high),
                             attention_factor(scaling), stream_of(pair, config)};
    }
    return frequencies;
}

MovedRows rows_at(const View &input, const View &output, const Rotation &rotation, const Positions &positions,
                  uint32_t rotated_from, const RmsNorm &norm) {
    MovedRows rows{.source = input,
                   .target = output,
                   .offset = positions.offset,
                   .past_lengths = positions.past_lengths,
                   .cu_seqlens = positions.cu_seqlens,
                   .norm = norm,
                   .rotation = rotation,
                   .rotated_from = rotated_from};
    if (present(rotation.frequencies)) rows.token_positions = positions.of_tokens;
    if (present(positions.cu_seqlens)) {
        rows.batch = positions.sequences;
        rows.positions = positions.longest;
    }
    return rows;
}

MovedRows rotated_rows(const View &input, const View &output, const Rotation &rotation, const Positions &positions,
                       uint32_t rotated_from, const RmsNorm &norm) {
    MovedRows rows = rows_at(input, output, rotation, positions, rotated_from, norm);
    rows.keeps_places = true;
    return rows;
}

} // namespace vkattn
