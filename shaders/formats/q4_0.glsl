// q4_0 of ggml: a block of 32 is an f16 scale, then 16 bytes, whose lower halves are numbers 0 .. 15 and whose upper halves
// are numbers 16 .. 31, each above the number by 8.
#include "formats/bytes.glsl"

#ifdef BLOCK
vec2 q4_0_affine(BLOCK block, uint i) { return vec2(read_half(block, 0), 0.0); }

NUMBERS q4_0_numbers(BLOCK block, uint i) {
    BYTES bytes = read_bytes(block, 2 + i % 16);
    return half_bytes(i < 16 ? bytes : bytes >> 4, 8.0);
}
#endif

#ifdef ENCODES_BLOCKS
uint q4_0_number(float value, float inverse) {
    precise float scaled = value * inverse;
    precise float shifted = scaled + 8.5;
    return uint(min(15, int(shifted)));
}

EncodedBlock q4_0_encode(float values[32]) {
    float furthest = 0.0; // from zero, with its sign; the first of equals
    for (uint i = 0; i < 32; ++i)
        if (magnitude_bits(values[i]) > magnitude_bits(furthest)) furthest = values[i];
    precise float scale = furthest / -8.0;
    precise float inverse = scale != 0.0 ? 1.0 / scale : 0.0;
    EncodedBlock block = begin_block(scale_bits(scale, magnitude_bits(furthest)));
    for (uint i = 0; i < 16; ++i)
        put_byte(block, 2 + i, q4_0_number(values[i], inverse) | (q4_0_number(values[16 + i], inverse) << 4));
    return block;
}
#endif
