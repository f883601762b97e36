// Eight numbers in words of two halves each.
#ifndef ROUNDED_HALVES_GLSL
#define ROUNDED_HALVES_GLSL

#include "common/matrix_element.glsl"

// As the device rounds halves, which need not be towards zero.
uvec4 round_vector(mat2x4 v) {
#ifdef EMULATED_SUBGROUPS
    return pack_vector(v);
#else
    return uvec4(packFloat2x16(f16vec2(v[0].xy)), packFloat2x16(f16vec2(v[0].zw)), packFloat2x16(f16vec2(v[1].xy)),
                 packFloat2x16(f16vec2(v[1].zw)));
#endif
}

#endif
