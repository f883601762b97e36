// bf16: the upper half of an f32.
#ifndef BF16_GLSL
#define BF16_GLSL

float bf16_value(uint bits) { return uintBitsToFloat(bits << 16); }

vec4 bf16_values(uvec4 words) {
    return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}

// Rounded to nearest even.
uint bf16_bits(float value) {
    uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

#endif
