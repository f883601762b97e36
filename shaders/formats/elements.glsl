// Types that are stored an element at a time: the one place that tells them apart, by formats/NAME.glsl's
//   float NAME_value(uint bits), uint NAME_bits(float value): an element in the lowest bits
//   vec4 NAME_values(uvec4 words): four neighbours from the first words that they fill, the lowest bits first
#ifndef ELEMENTS_GLSL
#define ELEMENTS_GLSL

#include "interface/common.h"

#define INCLUDES_FORMATS
#include "interface/stored_types.h"

#define SET_BYTES(with, NAME, name, number, elements, bytes, KIND, width, USES)                                        \
    IF_FLOAT_##KIND(if (with == FORMAT_##NAME) result = bytes;)
#define SET_VALUE(with, NAME, name, number, elements, bytes, KIND, width, USES)                                        \
    IF_FLOAT_##KIND(if (with == FORMAT_##NAME) result = name##_value(bits);)
#define SET_VALUES(with, NAME, name, number, elements, bytes, KIND, width, USES)                                       \
    IF_FLOAT_##KIND(if (with == FORMAT_##NAME) result = name##_values(words);)
#define SET_BITS(with, NAME, name, number, elements, bytes, KIND, width, USES)                                         \
    IF_FLOAT_##KIND(if (with == FORMAT_##NAME) result = name##_bits(value);)

uint bytes_of_element(const uint format) {
    uint result = 4;
    STORED_TYPES(SET_BYTES, format)
    return result;
}

float element_value(const uint format, uint bits) {
    float result = 0.0;
    STORED_TYPES(SET_VALUE, format)
    return result;
}

vec4 element_values(const uint format, uvec4 words) {
    vec4 result = vec4(0);
    STORED_TYPES(SET_VALUES, format)
    return result;
}

uint element_bits(const uint format, float value) {
    uint result = 0;
    STORED_TYPES(SET_BITS, format)
    return result;
}

// Four and eight elements of 16 bits.
vec4 expand_halves(const uint format, uvec2 halves) { return element_values(format, uvec4(halves, 0, 0)); }

bool is_quantised(const uint format) { return FORMAT_IS_QUANTISED(format) != 0; }
bool has_minimum(const uint format) { return FORMAT_HAS_MINIMUM(format) != 0; }

#define SET_BLOCK_BYTES(with, NAME, name, number, elements, bytes, KIND, width, USES)                                  \
    IF_BLOCKS_##KIND(if (with == FORMAT_##NAME) result = bytes;)
#define SET_BLOCK_BEGIN(with, NAME, name, number, elements, bytes, KIND, width, USES)                                  \
    IF_BLOCKS_##KIND(if (with == FORMAT_##NAME) result = element / elements * bytes;)
#define SET_ELEMENT(with, NAME, name, number, elements, bytes, KIND, width, USES)                                      \
    IF_BLOCKS_##KIND(if (with == FORMAT_##NAME) result = element % elements;)

uint bytes_of_block(const uint format) {
    uint result = 0;
    STORED_TYPES(SET_BLOCK_BYTES, format)
    return result;
}

// Where the block of a row's element begins, in bytes of the row: even.
uint block_of_element(const uint format, uint element) {
    uint result = 0;
    STORED_TYPES(SET_BLOCK_BEGIN, format)
    return result;
}

// Which element of its block it is.
uint element_of_block(const uint format, uint element) {
    uint result = 0;
    STORED_TYPES(SET_ELEMENT, format)
    return result;
}

// From (scale, minimum) and numbers.
vec4 apply_affine(const uint format, vec2 affine, vec4 numbers) {
    vec4 values = affine.x * numbers;
    if (has_minimum(format)) values += affine.y;
    return values;
}

mat2x4 apply_affine(const uint format, vec2 affine, mat2x4 numbers) {
    mat2x4 values = affine.x * numbers;
    if (has_minimum(format)) values += affine.y;
    return values;
}

#endif
