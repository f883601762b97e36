// The 16-bit float formats, converted on the host.
#pragma once

#include <cstdint>

namespace vkattn::tools {

// IEEE 754 binary16 and bfloat16. Narrowing rounds to nearest, ties to even; NaN stays NaN.
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);

} // namespace vkattn::tools
