// f32 to quantised blocks, rounded as ggml's reference quantiser rounds.
#ifndef QUANTISE_GLSL
#define QUANTISE_GLSL

#include "common/round.glsl"
#include "interface/common.h"

// The block's scale, and the words of its quantised values, in their order in memory.
struct QuantisedBlock {
    uint scale; // f16 bits
    uint words[8];
};

float round_half_away(float x) {
    float whole = floor(abs(x));
    return sign(x) * (abs(x) - whole >= 0.5 ? whole + 1.0 : whole);
}

const uint INFINITY_BITS = 0x7f800000u;

// Orders numbers by their distance from zero, with NaN beyond infinity, which max() and comparisons may lose.
uint magnitude_bits(float value) { return floatBitsToUint(value) & 0x7fffffffu; }

// NaN in a block makes its scale NaN: every value of the block then is.
uint scale_bits(float scale, uint largest_bits) { return largest_bits > INFINITY_BITS ? 0x7e00u : f16_bits(scale); }

QuantisedBlock quantise_q8_0(float values[32]) {
    uint largest = 0u;
    for (uint i = 0; i < 32; ++i) largest = max(largest, magnitude_bits(values[i]));
    precise float scale = uintBitsToFloat(largest) / 127.0;
    precise float inverse = scale != 0.0 ? 1.0 / scale : 0.0;
    QuantisedBlock block;
    block.scale = scale_bits(scale, largest);
    for (uint word = 0; word < 8; ++word) {
        block.words[word] = 0u;
        for (uint i = 0; i < 4; ++i) {
            precise float scaled = values[4 * word + i] * inverse;
            block.words[word] |= (uint(int(round_half_away(scaled))) & 255u) << (8 * i);
        }
    }
    return block;
}

uint q4_0_value(float value, float inverse) {
    precise float scaled = value * inverse;
    precise float shifted = scaled + 8.5;
    return uint(min(15, int(shifted)));
}

QuantisedBlock quantise_q4_0(float values[32]) {
    float furthest = 0.0; // from zero, with its sign; the first of equals
    for (uint i = 0; i < 32; ++i)
        if (magnitude_bits(values[i]) > magnitude_bits(furthest)) furthest = values[i];
    precise float scale = furthest / -8.0;
    precise float inverse = scale != 0.0 ? 1.0 / scale : 0.0;
    QuantisedBlock block;
    block.scale = scale_bits(scale, magnitude_bits(furthest));
    for (uint word = 0; word < 4; ++word) {
        block.words[word] = 0u;
        for (uint i = 0; i < 4; ++i) {
            uint low = q4_0_value(values[4 * word + i], inverse);
            uint high = q4_0_value(values[16 + 4 * word + i], inverse);
            block.words[word] |= (low | (high << 4)) << (8 * i);
        }
    }
    return block;
}

QuantisedBlock quantise(const uint format, float values[32]) {
    if (format == FORMAT_Q8_0) return quantise_q8_0(values);
    return quantise_q4_0(values);
}

#endif
