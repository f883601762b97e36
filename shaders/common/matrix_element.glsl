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

// Of an element's 15 bits and this, the sum's 16th bit tells of what is infinite or no number.
const uint CARRIES_INFINITE = 0x8000u - EXPONENT_BITS;
// Or of the largest f16, too: a driver's packHalf2x16 may make that of larger numbers.
#ifdef BFLOAT16
const uint CARRIES_LARGE = CARRIES_INFINITE;
#else
const uint CARRIES_LARGE = CARRIES_INFINITE + 1u;
#endif

// Of each of two elements 1 where it is special, else 0. Without a branch, as the functions below: some compilers make a branch
// of each && and ?:.
uint special_elements(uint word, uint carries) { return ((word & 0x7fff7fffu) + carries * 0x10001u) >> 15 & 0x10001u; }

bool have_special(uvec4 words, uint carries) {
    uint special = 0;
    [[unroll]] for (uint i = 0; i < 4; ++i) special |= special_elements(words[i], carries);
    return special != 0;
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
    uvec4 words = pack_vector(v), large = pack_vector(v * (1.0 / UNIT_OF_LARGE_VALUES));
    [[unroll]] for (uint i = 0; i < 4; ++i) large[i] &= special_elements(words[i], CARRIES_LARGE) * 0xffffu;
    return large;
}
#else
#define pack_large_values pack_vector // which holds all
#endif

// carries: what tells of special elements.
uint part_of_word(uint word, uint part, uint carries) {
    uint special = special_elements(word, carries), nan = special_elements(word, CARRIES_INFINITE - 1u);
    uint minus = word >> 15 & 0x10001u, of_this_sign = part == VALUES_MINUS_INFINITY ? minus : minus ^ 0x10001u;
    return part <= VALUES_LARGE ? word & ~(special * 0xffffu) : (special & (nan | of_this_sign)) * ONE_BITS;
}

uvec4 part_of_elements(uvec4 words, uint part, uint carries) {
    if (part == VALUES_ALL) return words;
    [[unroll]] for (uint i = 0; i < 4; ++i) words[i] = part_of_word(words[i], part, carries);
    return words;
}

#endif
