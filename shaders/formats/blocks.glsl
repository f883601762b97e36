// Template: the elements of quantised blocks, wherever their bytes come from: the one place that tells the types apart.
// Included once a source, after formats/elements.glsl.
//
// Before: BLOCK, the structure of a block of the source, which has
//           float read_half(BLOCK block, uint at): the f16 at an even byte of the block
//           BYTES read_bytes(BLOCK block, uint at): bytes from an even one on
//         BYTES and NUMBERS: uvec2 and mat2x4 of a source that gives eight at a time, or uint and vec4 of four
// formats/NAME.glsl has vec2 NAME_affine(BLOCK block, uint i) and NUMBERS NAME_numbers(BLOCK block, uint i) then.
#define INCLUDES_FORMATS
#include "interface/stored_types.h"

#ifndef AFFINE_CASE
#define AFFINE_CASE(NAME, name, number, elements, bytes, KIND, width, USES) CASE(NAME) name##_affine(block, i);
#define NUMBERS_CASE(NAME, name, number, elements, bytes, KIND, width, USES) CASE(NAME) name##_numbers(block, i);
#endif

// (scale, minimum) of element i of a block: it is scale * number + minimum.
vec2 affine_of(const uint format, BLOCK block, uint i) {
    vec2 result = vec2(0);
    BLOCK_TYPES(AFFINE_CASE)
    return result;
}

// The numbers of eight or four neighbours from element i on, a multiple of as many.
NUMBERS numbers_of(const uint format, BLOCK block, uint i) {
    NUMBERS result = NUMBERS(0);
    BLOCK_TYPES(NUMBERS_CASE)
    return result;
}

#undef BLOCK
#undef BYTES
#undef NUMBERS
