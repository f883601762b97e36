// The 16-bit numbers that matrix units multiply, in words of two: f16, or bf16 where BFLOAT16 is defined.
#ifndef MATRIX_ELEMENT_GLSL
#define MATRIX_ELEMENT_GLSL

#include "formats/elements.glsl"

#ifdef BFLOAT16
#define MATRIX_ELEMENT bfloat16_t
const uint MATRIX_FORMAT = FORMAT_BF16;
const uint EXPONENT_BITS = 0x7f80u;
const uint ONE_BITS = 0x3f80u;

uint pack_elements(vec2 v) { return bf16_bits(v.x) | (bf16_bits(v.y) << 16); }
#else
#define MATRIX_ELEMENT float16_t
const uint MATRIX_FORMAT = FORMAT_F16;
const uint EXPONENT_BITS = 0x7c00u;
const uint ONE_BITS = 0x3c00u;

// Of what is a half already, or within the tolerance of any rounding.
uint pack_elements(vec2 v) { return packHalf2x16(v); }
#endif

uvec4 pack_vector(mat2x4 v) {
    return uvec4(pack_elements(v[0].xy), pack_elements(v[0].zw), pack_elements(v[1].xy), pack_elements(v[1].zw));
}

// Without a branch, as the functions below: some compilers make a branch of each && and ?:.
bool are_finite(uvec4 words) {
    uint largest = 0;
    [[unroll]] for (uint i = 0; i < 4; ++i) largest =
        max(largest, max(words[i] & EXPONENT_BITS, (words[i] >> 16) & EXPONENT_BITS));
    return largest != EXPONENT_BITS;
}

// Parts of values that a matrix product sums up apart, since 0 * infinity is not 0: the finite values; those that sixteen bits do
// not hold, as multiples of UNIT_OF_LARGE_VALUES; ones for what adds +infinity; ones for what adds -infinity. What is not a
// number adds both.
#define VALUES_ALL 0u
#define VALUES_FINITE 1u
#define VALUES_LARGE 2u
#define VALUES_PLUS_INFINITY 3u
#define VALUES_MINUS_INFINITY 4u
const float UNIT_OF_LARGE_VALUES = 256.0;

#ifndef BFLOAT16
// The large ones of eight values, in their unit; 0 for the others, which sixteen bits hold.
uvec4 pack_large_values(mat2x4 v) {
    uvec4 beyond = (pack_vector(v) & 0x7c007c00u) + 0x04000400u; // exponents that are all ones carry
    return pack_vector(v * (1.0 / UNIT_OF_LARGE_VALUES)) & (beyond >> 15 & 0x00010001u) * 0xffffu;
}
#else
#define pack_large_values pack_vector // which holds all
#endif

uint part_of_element(uint bits, uint part) {
    uint special = uint((bits & EXPONENT_BITS) == EXPONENT_BITS);
    uint nan = uint((bits & 0x7fffu) > EXPONENT_BITS);
    uint of_this_sign = uint((bits >> 15) == uint(part == VALUES_MINUS_INFINITY));
    return part <= VALUES_LARGE ? bits * (1u - special) : (special & (nan | of_this_sign)) * ONE_BITS;
}

uvec4 part_of_elements(uvec4 words, uint part) {
    if (part == VALUES_ALL) return words;
    [[unroll]] for (uint i = 0; i < 4; ++i) words[i] =
        part_of_element(words[i] & 0xffffu, part) | (part_of_element(words[i] >> 16, part) << 16);
    return words;
}

#endif
