#include "tools/tensors/quantise.hpp"

#include "tools/tensors/float_formats.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::tools {
namespace {

constexpr std::size_t kBlockElements = 32;

// A NaN counts as further from zero than infinity, so that it becomes the block's scale, and with it every value.
bool is_nearer_zero(float a, float b) { return !std::isnan(a) && (std::isnan(b) || std::abs(a) < std::abs(b)); }

// A whole number of the range that a block holds; 0 for what its scale hides.
int whole(float value) { return std::isfinite(value) ? static_cast<int>(value) : 0; }

void push_scale(std::vector<std::byte> &bytes, float scale) {
    const std::uint16_t bits = f32_to_f16(scale);
    bytes.push_back(static_cast<std::byte>(bits & 0xff));
    bytes.push_back(static_cast<std::byte>(bits >> 8));
}

void push_q8_0(std::vector<std::byte> &bytes, std::span<const float> values) {
    const float scale = std::abs(*std::ranges::max_element(values, is_nearer_zero)) / 127.0F;
    const float inverse = scale != 0.0F ? 1.0F / scale : 0.0F;
    push_scale(bytes, scale);
    for (const float value : values) bytes.push_back(static_cast<std::byte>(whole(std::round(value * inverse)) & 0xff));
}

void push_q4_0(std::vector<std::byte> &bytes, std::span<const float> values) {
    const float furthest = *std::ranges::max_element(values, is_nearer_zero); // the first of equals
    const float scale = furthest / -8.0F;
    const float inverse = scale != 0.0F ? 1.0F / scale : 0.0F;
    push_scale(bytes, scale);
    const auto quantised = [inverse](float value) { return std::min(15, whole(value * inverse + 8.5F)); };
    for (std::size_t i = 0; i < kBlockElements / 2; ++i)
        bytes.push_back(static_cast<std::byte>(quantised(values[i]) | quantised(values[i + kBlockElements / 2]) << 4));
}

} // namespace

bool is_quantised(vkattn_type type) { return type == VKATTN_TYPE_Q8_0 || type == VKATTN_TYPE_Q4_0; }

std::vector<std::byte> quantise(vkattn_type type, std::span<const double> values) {
    std::vector<std::byte> bytes;
    std::vector<float> block(kBlockElements);
    for (std::size_t first = 0; first < values.size(); first += kBlockElements) {
        std::ranges::transform(values.subspan(first, kBlockElements), block.begin(),
                               [](double value) { return static_cast<float>(value); });
        (type == VKATTN_TYPE_Q8_0 ? push_q8_0 : push_q4_0)(bytes, block);
    }
    return bytes;
}

} // namespace vkattn::tools
