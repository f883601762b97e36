// f16 and bf16 to f32, two to a word, eight to a vector of sixteen bytes.
#ifndef HALVES_GLSL
#define HALVES_GLSL

#include "interface/common.h"

layout(constant_id = CONSTANT_UNPACKS_HALVES) const uint UNPACKS_HALVES = 1;

float f16_value(uint bits) {
    uint magnitude = bits & 0x7fffu;
    float value = uintBitsToFloat((magnitude << 13) + 0x38000000u);
    if (magnitude < 0x400u) value = float(magnitude) / 16777216.0;
    if (magnitude >= 0x7c00u) value = uintBitsToFloat((magnitude << 13) | 0x7f800000u);
    return (bits & 0x8000u) != 0 ? -value : value;
}

vec2 unpack_halves(uint word) {
    if (UNPACKS_HALVES != 0) return unpackHalf2x16(word);
    return vec2(f16_value(word & 0xffffu), f16_value(word >> 16));
}

vec4 expand_halves(const uint format, uvec2 halves) {
    if (format == FORMAT_F16) return vec4(unpack_halves(halves.x), unpack_halves(halves.y));
    return uintBitsToFloat(uvec4(halves.x << 16, halves.x & 0xffff0000u, halves.y << 16, halves.y & 0xffff0000u));
}

mat2x4 expand_vector(const uint format, uvec4 halves) {
    return mat2x4(expand_halves(format, halves.xy), expand_halves(format, halves.zw));
}

#endif
