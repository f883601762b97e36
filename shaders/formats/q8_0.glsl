// q8_0 of ggml: a block of 32 is an f16 scale, then 32 signed bytes.
#include "formats/bytes.glsl"

#ifdef BLOCK
vec2 q8_0_affine(BLOCK block, uint i) { return vec2(read_half(block, 0), 0.0); }

NUMBERS q8_0_numbers(BLOCK block, uint i) { return signed_bytes(read_bytes(block, 2 + i)); }
#endif

#ifdef ENCODES_BLOCKS
EncodedBlock q8_0_encode(float values[32]) {
    uint largest = 0u;
    for (uint i = 0; i < 32; ++i) largest = max(largest, magnitude_bits(values[i]));
    precise float scale = uintBitsToFloat(largest) / 127.0;
    precise float inverse = scale != 0.0 ? 1.0 / scale : 0.0;
    EncodedBlock block = begin_block(scale_bits(scale, largest));
    for (uint i = 0; i < 32; ++i) {
        precise float scaled = values[i] * inverse;
        put_byte(block, 2 + i, uint(int(round_half_away(scaled))) & 255u);
    }
    return block;
}
#endif
