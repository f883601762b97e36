// f32 to quantised blocks, rounded as ggml's reference quantiser rounds, by formats/NAME.glsl's
//   EncodedBlock NAME_encode(float values[32])
#ifndef ENCODE_GLSL
#define ENCODE_GLSL

#include "formats/elements.glsl"

// The block's bytes in words, in their order in memory; zeros after the last.
struct EncodedBlock {
    uint words[9];
};

EncodedBlock begin_block(uint scale) {
    EncodedBlock block;
    block.words[0] = scale;
    for (uint i = 1; i < 9; ++i) block.words[i] = 0u;
    return block;
}

void put_byte(inout EncodedBlock block, uint at, uint bits) { block.words[at / 4] |= bits << (at % 4 * 8); }

float round_half_away(float x) {
    float whole = floor(abs(x));
    return sign(x) * (abs(x) - whole >= 0.5 ? whole + 1.0 : whole);
}

const uint INFINITY_BITS = 0x7f800000u;

// Orders numbers by their distance from zero, with NaN beyond infinity, which max() and comparisons may lose.
uint magnitude_bits(float value) { return floatBitsToUint(value) & 0x7fffffffu; }

// NaN in a block makes its scale NaN: every value of the block then is.
uint scale_bits(float scale, uint largest_bits) { return largest_bits > INFINITY_BITS ? 0x7e00u : f16_bits(scale); }

#define ENCODES_BLOCKS
#define INCLUDES_FORMATS
#include "interface/stored_types.h"
#undef ENCODES_BLOCKS

#define ENCODED_CASE(NAME, name, number, elements, bytes, KIND, width, USES) CASE(NAME) name##_encode(values);

EncodedBlock encode_block(const uint format, float values[QUANTISED_BLOCK]) {
    EncodedBlock result = begin_block(0u);
    CACHED_BLOCK_TYPES(ENCODED_CASE)
    return result;
}

#endif
