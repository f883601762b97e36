// The arithmetic of quantised blocks, wherever their bytes come from. Layouts: interface/common.h.
#ifndef QUANTISED_GLSL
#define QUANTISED_GLSL

#include "common/halves.glsl"
#include "interface/common.h"

bool is_quantised(const uint format) { return format == FORMAT_Q8_0 || format == FORMAT_Q4_0; }

uint bytes_of_quantised_block(const uint format) { return format == FORMAT_Q8_0 ? Q8_0_BYTES : Q4_0_BYTES; }

// Where the block of a row's element begins, in bytes of the row: even.
uint quantised_block(const uint format, uint element) {
    return element / QUANTISED_BLOCK * bytes_of_quantised_block(format);
}

// The scale of the block that begins at a byte, from the word that holds it.
float quantised_scale(uint word, uint block) { return unpack_halves(word >> ((block & 2) * 8)).x; }

// Where the bytes of element i (a multiple of 4) of a block and of the three after it begin, after the scale.
uint quantised_byte(const uint format, uint i) { return 2 + (format == FORMAT_Q8_0 ? i : i % 16); }

// Four values from the four bytes at quantised_byte(format, i), without the scale.
vec4 quantised_values(const uint format, uint bytes, uint i) {
    if (format == FORMAT_Q8_0)
        return vec4(bitfieldExtract(int(bytes), 0, 8), bitfieldExtract(int(bytes), 8, 8),
                    bitfieldExtract(int(bytes), 16, 8), bitfieldExtract(int(bytes), 24, 8));
    uint halves = i < 16 ? bytes : bytes >> 4;
    return vec4(uvec4(halves, halves >> 8, halves >> 16, halves >> 24) & 15u) - 8.0;
}

#endif
