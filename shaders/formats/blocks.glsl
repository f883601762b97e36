// Template: the elements of quantised blocks, wherever their bytes come from. One code for all blocks of 32, which their
// rows in interface/stored_types.h describe: a module grows with no type. Included once a source, after
// formats/elements.glsl.
//
// Before: BLOCK, the structure of a block of the source, which has
//           float read_half(BLOCK block, uint at): the f16 at an even byte of the block
//           uint read_word(BLOCK block, uint at): four bytes from an even one on
//           BYTES read_bytes(BLOCK block, uint begin, uint at, const uint size): of `size` bytes, which begin at an even one of
//           the block, those from number `at` on
//         OWN_ELEMENT(i): this invocation's first element, where several read a run from i on together (the source's read_bytes
//         gives each its own); i by default
//         SELECTS, where both sides of a condition cost less than a branch
//         SIGNED_BYTES and UNSIGNED_BYTES: what makes NUMBERS of BYTES; those of formats/bytes.glsl by default
//         BYTES and NUMBERS: uvec2 and mat2x4 of a source that gives eight at a time, or uint and vec4 of four
#include "formats/bytes.glsl"

#ifndef OWN_ELEMENT
#define OWN_ELEMENT(i) (i)
#endif

#ifndef SIGNED_BYTES
#define SIGNED_BYTES signed_bytes
#define UNSIGNED_BYTES unsigned_bytes
#endif

#ifdef QUANTISED_WEIGHT
#include "formats/super_blocks.glsl"
#endif

// (scale, minimum) of element i of a block: it is scale * number + minimum.
vec2 affine_of(const uint format, BLOCK block, uint i) {
#ifdef QUANTISED_WEIGHT
    if (is_super_block(format)) return super_affine(format, block, i);
#endif
    if (is_float8(format)) return vec2(1.0, 0.0);
    if (has_minimum(format)) return unpack_halves(read_word(block, 0));
    return vec2(read_half(block, 0), 0.0);
}

// The numbers of eight or four neighbours from element i on, a multiple of as many.
NUMBERS numbers_of(const uint format, BLOCK block, uint i) {
#ifdef QUANTISED_WEIGHT
    if (is_super_block(format)) return super_numbers(format, block, i);
#endif
    if (is_float8(format))
        return float8_values(read_bytes(block, 0, i, QUANTISED_BLOCK), kind_of_block(format) == E4M3);
    if (width_of_number(format) == 8)
        return SIGNED_BYTES(read_bytes(block, bytes_of_block(format) - QUANTISED_BLOCK, i, QUANTISED_BLOCK));
    const uint half_bytes = bytes_of_block(format) - QUANTISED_BLOCK / 2;
    BYTES bytes = read_bytes(block, half_bytes, i % 16, 16);
    bytes = (OWN_ELEMENT(i) < 16 ? bytes : bytes >> 4) & 0x0f0f0f0fu;
    if (width_of_number(format) == 5) bytes |= fifth_bits(read_word(block, half_bytes - 4) >> OWN_ELEMENT(i), bytes);
    if (kind_of_block(format) == LISTED) return listed_bytes(bytes);
    return UNSIGNED_BYTES(bytes, kind_of_block(format) == AFFINE ? 0.0 : float(1u << (width_of_number(format) - 1)));
}

#ifdef QUANTISED_WEIGHT
#include "formats/both_halves.glsl"
#endif

#undef BLOCK
#undef BYTES
#undef NUMBERS
#undef OWN_ELEMENT
#undef SELECTS
#undef SIGNED_BYTES
#undef UNSIGNED_BYTES
