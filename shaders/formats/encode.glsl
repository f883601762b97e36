// f32 to quantised blocks, rounded as ggml's reference quantiser rounds, by formats/NAME.glsl's
//   EncodedBlock NAME_encode(float values[32])
#ifndef ENCODE_GLSL
#define ENCODE_GLSL

#include "formats/bytes.glsl"
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

// a / b of normal numbers, rounded to nearest as by a CPU. A GPU's division may be off by 2.5 units in the last place
// (Vulkan, "Precision of Individual Operations"): its quotient is put right by the remainder, in whole numbers. What is not
// normal is left as the GPU divides it.
float divide(float a, float b) {
    const uint one = 1u << 23; // as a fraction
    precise float quotient = a / b;
    uint a_exponent = floatBitsToUint(a) >> 23 & 255u, b_exponent = floatBitsToUint(b) >> 23 & 255u;
    uint a_fraction = floatBitsToUint(a) & (one - 1u) | one, b_fraction = floatBitsToUint(b) & (one - 1u) | one;
    int exponent = int(a_exponent) - int(b_exponent) + 127;
    if (a_fraction < b_fraction) {
        a_fraction *= 2u;
        --exponent;
    }
    bool are_normal = min(a_exponent, b_exponent) > 0u && max(a_exponent, b_exponent) < 255u;
    if (!are_normal || exponent < 1 || exponent > 254) return quotient;
    precise float near = float(a_fraction) / float(b_fraction); // from 1 to below 2
    uint fraction = uint(near * float(one));
    int remainder = int((a_fraction << 23) - fraction * b_fraction); // exact: what is beyond 32 bits is equal in both
    for (uint i = 0; i < 4; ++i) {
        int step = 2 * remainder > int(b_fraction) ? 1 : 2 * remainder < -int(b_fraction) ? -1 : 0;
        fraction += uint(step);
        remainder -= step * int(b_fraction);
    }
    uint sign_bit = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
    return uintBitsToFloat(sign_bit | uint(exponent) << 23 | fraction - one);
}

// The value furthest from zero, with its sign; the first of equals.
float furthest_from_zero(float values[QUANTISED_BLOCK]) {
    float furthest = 0.0;
    for (uint i = 0; i < QUANTISED_BLOCK; ++i)
        if (magnitude_bits(values[i]) > magnitude_bits(furthest)) furthest = values[i];
    return furthest;
}

// The numbers of a block of half bytes, each of at most five bits.
struct EncodedNumbers {
    uint scale; // the block's first word: the f16 scale, then the f16 minimum, if there is one
    uint numbers[QUANTISED_BLOCK];
};

// Numbers from -half_range on, which is the value furthest from zero; each is stored above itself by half the range.
EncodedNumbers encode_scaled(float values[QUANTISED_BLOCK], const uint half_range) {
    float furthest = furthest_from_zero(values);
    float scale = divide(furthest, -float(half_range));
    float inverse = scale != 0.0 ? divide(1.0, scale) : 0.0;
    EncodedNumbers encoded;
    encoded.scale = scale_bits(scale, magnitude_bits(furthest));
    for (uint i = 0; i < QUANTISED_BLOCK; ++i) {
        precise float scaled = values[i] * inverse;
        precise float shifted = scaled + (float(half_range) + 0.5);
        encoded.numbers[i] = uint(clamp(int(shifted), 0, int(2 * half_range - 1)));
    }
    return encoded;
}

// Numbers from 0, the least value, to `range`, the greatest.
EncodedNumbers encode_affine(float values[QUANTISED_BLOCK], const uint range) {
    float least = values[0], greatest = values[0];
    uint largest = 0u;
    for (uint i = 0; i < QUANTISED_BLOCK; ++i) {
        least = min(least, values[i]);
        greatest = max(greatest, values[i]);
        largest = max(largest, magnitude_bits(values[i]));
    }
    precise float whole_range = greatest - least;
    float scale = divide(whole_range, float(range));
    float inverse = scale != 0.0 ? divide(1.0, scale) : 0.0;
    EncodedNumbers encoded;
    encoded.scale = scale_bits(scale, largest) | f16_bits(least) << 16;
    for (uint i = 0; i < QUANTISED_BLOCK; ++i) {
        precise float above = values[i] - least;
        precise float scaled = above * inverse;
        precise float rounded = scaled + 0.5;
        encoded.numbers[i] = uint(clamp(int(rounded), 0, int(range)));
    }
    return encoded;
}

// The lower four bits of each number from byte `at` on: number i beside number i + 16.
void put_half_bytes(inout EncodedBlock block, uint at, EncodedNumbers encoded) {
    for (uint i = 0; i < 16; ++i)
        put_byte(block, at + i, (encoded.numbers[i] & 15u) | (encoded.numbers[16 + i] & 15u) << 4);
}

// The fifth bits of all numbers.
void put_fifth_bits(inout EncodedBlock block, uint at, EncodedNumbers encoded) {
    uint bits = 0u;
    for (uint i = 0; i < QUANTISED_BLOCK; ++i) bits |= encoded.numbers[i] >> 4 << i;
    for (uint i = 0; i < 4; ++i) put_byte(block, at + i, bits >> (8 * i) & 255u);
}

// The largest number of a type of them, OCP's.
float largest_float8(const uint format) { return kind_of_block(format) == E4M3 ? 448.0 : 57344.0; }

// To the nearest whole number, the even one of two: some CPU drivers' roundEven takes the upper one.
uint round_half_even(float x) {
    uint whole = uint(x);
    float rest = x - float(whole);
    return rest > 0.5 || (rest == 0.5 && (whole & 1u) != 0u) ? whole + 1u : whole;
}

// A float of 8 bits, rounded to nearest even; what is beyond the largest one becomes that. least_exponent: of the numbers
// that are not subnormal.
uint float8_bits(float value, const uint fraction_bits, const int least_exponent, const float largest) {
    uint sign_bit = floatBitsToUint(value) >> 31 << 7;
    if (magnitude_bits(value) > INFINITY_BITS) return sign_bit | 0x7fu;
    float magnitude = min(abs(value), largest);
    int exponent = max(int(floatBitsToUint(magnitude) >> 23) - 127, least_exponent);
    precise float steps = magnitude * uintBitsToFloat(uint(127 + int(fraction_bits) - exponent) << 23);
    return sign_bit | (uint(exponent - least_exponent) << fraction_bits) + round_half_even(steps);
}

EncodedBlock float8_encode(float values[QUANTISED_BLOCK], const uint fraction_bits, const int least_exponent,
                           const float largest) {
    EncodedBlock block = begin_block(0u);
    for (uint i = 0; i < QUANTISED_BLOCK; ++i)
        put_byte(block, i, float8_bits(values[i], fraction_bits, least_exponent, largest));
    return block;
}

#define ENCODES_BLOCKS
#include "formats/all.glsl"
#undef ENCODES_BLOCKS

#define ENCODED_CASE(NAME, name, number, elements, bytes, KIND, width, USES) CASE(NAME) name##_encode(values);

EncodedBlock encode_block(const uint format, float values[QUANTISED_BLOCK]) {
    EncodedBlock result = begin_block(0u);
    CACHED_BLOCK_TYPES(ENCODED_CASE)
    return result;
}

#endif
