// What tells stored types apart: of floats, with what formats/NAME.glsl has of each:
//   float NAME_value(uint bits), uint NAME_bits(float value): an element in the lowest bits
//   vec4 NAME_values(uvec4 words): four neighbours from the first words that they fill, the lowest bits first
// and of all, where elements lie. What quantised blocks hold: formats/blocks.glsl.
#ifndef ELEMENTS_GLSL
#define ELEMENTS_GLSL

#include "interface/common.h"

#include "formats/all.glsl"

#define CASE(NAME)                                                                                                     \
    if (format == FORMAT_##NAME) result =
#define VALUE_CASE(NAME, name, number, elements, bytes, KIND, width, USES) CASE(NAME) name##_value(bits);
#define VALUES_CASE(NAME, name, number, elements, bytes, KIND, width, USES) CASE(NAME) name##_values(words);
#define BITS_CASE(NAME, name, number, elements, bytes, KIND, width, USES) CASE(NAME) name##_bits(value);
#define FACT(NAME, fact) result = format == FORMAT_##NAME ? fact : result;
#define ELEMENTS_FACT(NAME, name, number, elements, bytes, KIND, width, USES) FACT(NAME, elements)
#define BYTES_FACT(NAME, name, number, elements, bytes, KIND, width, USES) FACT(NAME, bytes)
#define WIDTH_FACT(NAME, name, number, elements, bytes, KIND, width, USES) FACT(NAME, width)
#define KIND_FACT(NAME, name, number, elements, bytes, KIND, width, USES) FACT(NAME, KIND)

float element_value(const uint format, uint bits) {
    float result = 0.0;
    FLOAT_TYPES(VALUE_CASE)
    return result;
}

vec4 element_values(const uint format, uvec4 words) {
    vec4 result = vec4(0);
    FLOAT_TYPES(VALUES_CASE)
    return result;
}

uint element_bits(const uint format, float value) {
    uint result = 0;
    FLOAT_TYPES(BITS_CASE)
    return result;
}

// Facts are selected, not branched to: drivers fold them at once. A float alone is a block, too.
uint bytes_of_block(const uint format) {
    uint result = 0u;
    FLOAT_TYPES(BYTES_FACT)
    READ_BLOCK_TYPES(BYTES_FACT)
    return result;
}

uint elements_of_block(const uint format) {
    uint result = 1u;
    READ_BLOCK_TYPES(ELEMENTS_FACT)
    return result;
}

// Of quantised types: bits of a number, and SCALED, AFFINE, LISTED, E4M3 or E5M2.
uint width_of_number(const uint format) {
    uint result = 0u;
    READ_BLOCK_TYPES(WIDTH_FACT)
    return result;
}

uint kind_of_block(const uint format) {
    uint result = SCALED;
    READ_BLOCK_TYPES(KIND_FACT)
    return result;
}

bool is_quantised(const uint format) { return elements_of_block(format) != 1; }
bool is_super_block(const uint format) { return elements_of_block(format) > QUANTISED_BLOCK; }
bool is_float8(const uint format) { return kind_of_block(format) >= E4M3; }
bool has_minimum(const uint format) { return kind_of_block(format) == AFFINE; }

// Elements from eight numbers to eight others in the same bytes, as formats/both_halves.glsl reads them.
uint elements_to_second(const uint format) {
    if (is_super_block(format)) return width_of_number(format) == 6 ? 64 : 32;
    return width_of_number(format) == 8 ? 8 : QUANTISED_BLOCK / 2;
}

// Where the block of a row's element begins, in bytes of the row, and which of its elements that is.
uint block_of_element(const uint format, uint element) {
    return element / elements_of_block(format) * bytes_of_block(format);
}
uint element_of_block(const uint format, uint element) { return element % elements_of_block(format); }

// Four elements of 16 bits.
vec4 expand_halves(const uint format, uvec2 halves) { return element_values(format, uvec4(halves, 0, 0)); }

// From (scale, minimum) and numbers.
vec4 apply_affine(const uint format, vec2 affine, vec4 numbers) {
    vec4 values = affine.x * numbers;
    return has_minimum(format) ? values + affine.y : values;
}

mat2x4 apply_affine(const uint format, vec2 affine, mat2x4 numbers) {
    return mat2x4(apply_affine(format, affine, numbers[0]), apply_affine(format, affine, numbers[1]));
}

#endif
