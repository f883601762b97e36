// What formats/NAME.glsl of quantised blocks share.
#ifndef BYTES_GLSL
#define BYTES_GLSL

#include "formats/elements.glsl"

// Each less `above`.
vec4 unsigned_bytes(uint bytes, float above) {
    return vec4(uvec4(bytes, bytes >> 8, bytes >> 16, bytes >> 24) & 255u) - above;
}

mat2x4 unsigned_bytes(uvec2 bytes, float above) {
    return mat2x4(unsigned_bytes(bytes.x, above), unsigned_bytes(bytes.y, above));
}

vec4 signed_bytes(uint bytes) {
    return vec4(bitfieldExtract(int(bytes), 0, 8), bitfieldExtract(int(bytes), 8, 8),
                bitfieldExtract(int(bytes), 16, 8), bitfieldExtract(int(bytes), 24, 8));
}

mat2x4 signed_bytes(uvec2 bytes) { return mat2x4(signed_bytes(bytes.x), signed_bytes(bytes.y)); }

// The lowest four bits, each as the fifth bit of a byte; of eight in two words.
uint fifth_bits(uint bits, uint unused) {
    bits &= 15u;
    return (bits << 4 | bits << 11 | bits << 18 | bits << 25) & 0x10101010u;
}

uvec2 fifth_bits(uint bits, uvec2 unused) { return uvec2(fifth_bits(bits, 0u), fifth_bits(bits >> 4, 0u)); }

// Floats of 8 bits, as halves: those of five exponent bits are the upper byte of one; four bits more of one reach 2^-8 as far.
vec4 float8_values(uint bytes, bool is_e4m3) {
    uvec2 pairs = (uvec2(bytes, bytes >> 16) & 0xffu) | (uvec2(bytes, bytes >> 16) & 0xff00u) << 8;
    if (!is_e4m3) return vec4(unpack_halves(pairs.x << 8), unpack_halves(pairs.y << 8));
    uvec2 halves = (pairs & 0x007f007fu) << 7 | (pairs & 0x00800080u) << 8;
    vec4 values = 256.0 * vec4(unpack_halves(halves.x), unpack_halves(halves.y));
    return mix(values, vec4(uintBitsToFloat(0x7fc00000u)), greaterThan(abs(values), vec4(448.0))); // what is no number
}

mat2x4 float8_values(uvec2 bytes, bool is_e4m3) {
    return mat2x4(float8_values(bytes.x, is_e4m3), float8_values(bytes.y, is_e4m3));
}

const int IQ4_NL[16] = {IQ4_NL_ENTRIES};

#define LISTED_WORD(first)                                                                                             \
    (uint(IQ4_NL[first] & 255) | uint(IQ4_NL[first + 1] & 255) << 8 | uint(IQ4_NL[first + 2] & 255) << 16 |            \
     uint(IQ4_NL[first + 3] & 255) << 24)

// The entries that bytes below 16 name. Four entries in a word: drivers put an array that is indexed so often into memory.
vec4 listed_bytes(uint bytes) {
    uvec4 numbers = uvec4(bytes, bytes >> 8, bytes >> 16, bytes >> 24) & 15u;
    bvec4 odd = notEqual(numbers & 4u, uvec4(0)), upper = notEqual(numbers & 8u, uvec4(0));
    uvec4 words = mix(mix(uvec4(LISTED_WORD(0)), uvec4(LISTED_WORD(4)), odd),
                      mix(uvec4(LISTED_WORD(8)), uvec4(LISTED_WORD(12)), odd), upper);
    return vec4(ivec4(words << (24u - (numbers & 3u) * 8u)) >> 24);
}

mat2x4 listed_bytes(uvec2 bytes) { return mat2x4(listed_bytes(bytes.x), listed_bytes(bytes.y)); }

#endif
