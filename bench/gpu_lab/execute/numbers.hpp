// Numbers as registers hold them.
#pragma once
#include <bit>
#include <cstdint>

namespace execute {

inline float as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t as_bits(float value) { return std::bit_cast<uint32_t>(value); }
inline double as_double(uint64_t bits) { return std::bit_cast<double>(bits); }
inline uint64_t as_bits(double value) { return std::bit_cast<uint64_t>(value); }
inline int32_t as_signed(uint32_t bits) { return int32_t(bits); }

// f16 keeps its denormals whatever the mode of f32 is, as do the processor's conversions.
inline float half_to_float(uint32_t bits) { return float(std::bit_cast<_Float16>(uint16_t(bits))); }
inline uint16_t float_to_half(float value) { return std::bit_cast<uint16_t>(_Float16(value)); }
inline uint16_t double_to_half(double value) { return std::bit_cast<uint16_t>(_Float16(value)); }
uint16_t float_to_half_toward_zero(float value);

inline float bfloat_to_float(uint32_t bits) { return as_float(bits << 16); }
inline uint16_t float_to_bfloat(float value) {
    const uint32_t bits = as_bits(value);
    if (value != value) return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A number wins over NaN, +0 over -0 as the greater.
inline float maximum(float a, float b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return as_float(as_bits(a) & as_bits(b));
    return a > b ? a : b;
}
inline float minimum(float a, float b) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return as_float(as_bits(a) | as_bits(b));
    return a < b ? a : b;
}
inline float median(float a, float b, float c) {
    if (a != a || b != b || c != c) return minimum(minimum(a, b), c);
    return maximum(minimum(a, b), minimum(maximum(a, b), c));
}

inline uint32_t float_to_unsigned(float value) {
    if (value != value || value <= 0) return 0;
    return value >= 4294967296.f ? 0xffffffffu : uint32_t(value);
}
inline uint32_t float_to_signed(float value) {
    if (value != value) return 0;
    if (value <= -2147483648.f) return 0x80000000u;
    return value >= 2147483648.f ? 0x7fffffffu : uint32_t(int32_t(value));
}

} // namespace execute
