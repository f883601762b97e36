// Template: the elements of quantised blocks, wherever their bytes come from. One code for all blocks of 32, which their
// rows in interface/stored_types.h describe: a module grows with no type. Included once a source, after
// formats/elements.glsl.
//
// Before: BLOCK, the structure of a block of the source, which has
//           float read_half(BLOCK block, uint at): the f16 at an even byte of the block
//           uint read_word(BLOCK block, uint at): four bytes from an even one on
//           BYTES read_bytes(BLOCK block, uint at): bytes from an even one on
//         BYTES and NUMBERS: uvec2 and mat2x4 of a source that gives eight at a time, or uint and vec4 of four
#include "formats/bytes.glsl"

// (scale, minimum) of element i of a block: it is scale * number + minimum.
vec2 affine_of(const uint format, BLOCK block, uint i) {
    if (is_float8(format)) return vec2(1.0, 0.0);
    if (has_minimum(format)) return unpack_halves(read_word(block, 0));
    return vec2(read_half(block, 0), 0.0);
}

// The numbers of eight or four neighbours from element i on, a multiple of as many.
NUMBERS numbers_of(const uint format, BLOCK block, uint i) {
    if (is_float8(format)) return float8_values(read_bytes(block, i), kind_of_block(format) == E4M3);
    if (width_of_number(format) == 8) return signed_bytes(read_bytes(block, 2 + i));
    const uint half_bytes = bytes_of_block(format) - QUANTISED_BLOCK / 2;
    BYTES bytes = read_bytes(block, half_bytes + i % 16);
    bytes = (i < 16 ? bytes : bytes >> 4) & 0x0f0f0f0fu;
    if (width_of_number(format) == 5) bytes |= fifth_bits(read_word(block, half_bytes - 4) >> i, bytes);
    if (kind_of_block(format) == LISTED) return listed_bytes(bytes);
    return unsigned_bytes(bytes, kind_of_block(format) == AFFINE ? 0.0 : float(1u << (width_of_number(format) - 1)));
}

#undef BLOCK
#undef BYTES
#undef NUMBERS
