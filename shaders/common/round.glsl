// f32 to 16-bit storage, rounded to nearest even on every device: packHalf2x16 leaves the rounding to the driver.
#ifndef ROUND_GLSL
#define ROUND_GLSL

#include "interface/common.h"

uint f16_bits(float value) {
    uint bits = floatBitsToUint(value);
    uint sign_bit = (bits >> 16) & 0x8000u;
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign_bit | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign_bit | 0x7c00u; // 65520 and above round to infinity
    if (magnitude < 0x38800000u) {                           // subnormal: count units of 2^-24
        if (magnitude < 0x33000000u) return sign_bit;
        uint shift = 126u - (magnitude >> 23);
        uint mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint kept = mantissa >> shift;
        uint rest = mantissa & ((1u << shift) - 1u);
        uint middle = 1u << (shift - 1u);
        return sign_bit | (kept + ((rest > middle || (rest == middle && (kept & 1u) != 0u)) ? 1u : 0u));
    }
    uint rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return sign_bit | ((rounded - 0x38000000u) >> 13);
}

uint bf16_bits(float value) {
    uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

uint half_bits_of(const uint format, float value) { return format == FORMAT_F16 ? f16_bits(value) : bf16_bits(value); }

#endif
