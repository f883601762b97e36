// f16.
#ifndef F16_GLSL
#define F16_GLSL

#include "interface/common.h"

layout(constant_id = CONSTANT_UNPACKS_HALVES) const uint UNPACKS_HALVES = 1;

float unpack_half(uint bits) {
    uint magnitude = bits & 0x7fffu;
    float value = uintBitsToFloat((magnitude << 13) + 0x38000000u);
    if (magnitude < 0x400u) value = float(magnitude) / 16777216.0;
    if (magnitude >= 0x7c00u) value = uintBitsToFloat((magnitude << 13) | 0x7f800000u);
    return (bits & 0x8000u) != 0 ? -value : value;
}

vec2 unpack_halves(uint word) {
    if (UNPACKS_HALVES != 0) return unpackHalf2x16(word);
    return vec2(unpack_half(word & 0xffffu), unpack_half(word >> 16));
}

float f16_value(uint bits) { return unpack_halves(bits).x; }

vec4 f16_values(uvec4 words) { return vec4(unpack_halves(words.x), unpack_halves(words.y)); }

// Rounded to nearest even on every device: packHalf2x16 leaves the rounding to the driver.
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

#endif
