#include "tools/tensors/float_formats.hpp"

#include <bit>
#include <cmath>

namespace vkattn::tools {

float f16_to_f32(std::uint16_t bits) {
    const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
    const std::uint32_t mantissa = bits & 0x3ffU;
    float magnitude = 0.0F;
    if (exponent == 0x1fU)
        magnitude = std::bit_cast<float>(0x7f800000U | (mantissa << 13U));
    else if (exponent == 0)
        magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    else
        magnitude = std::bit_cast<float>(((exponent + 112U) << 23U) | (mantissa << 13U));
    return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

std::uint16_t f32_to_f16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000U)
        half = 0x7e00U;
    else if (magnitude >= 0x477ff000U) // from 65520 on, rounding reaches infinity
        half = 0x7c00U;
    else if (magnitude >= 0x38800000U) // 2^-14, the least normal
        half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13U) & 1U)) >> 13U;
    else // the default rounding mode of nearbyint is to nearest, ties to even
        half = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::bit_cast<float>(magnitude), 24)));
    return static_cast<std::uint16_t>(sign | half);
}

float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

std::uint16_t f32_to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

} // namespace vkattn::tools
