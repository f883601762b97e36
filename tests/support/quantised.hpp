// The quantised blocks as ggml lays them out and as its reference quantiser rounds them, in the tests' own words.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

namespace vkattn_test {

inline constexpr std::size_t kBlockElements = 32;

// Of a block whose scale is not a number, or infinite, its values say nothing more.
inline float finite(float value) { return std::isfinite(value) ? value : 0.0f; }

// d = largest magnitude / 127; each value the nearest integer to value / d, halves away from zero.
inline void encode_q8_0(std::span<const float, kBlockElements> values, std::uint8_t *block) {
    float largest = 0.0f;
    for (const float value : values)
        if (std::isnan(value) || std::fabs(value) > largest) largest = std::fabs(value); // a NaN stays the largest
    const float scale = largest / 127.0f;
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    const std::uint16_t bits = f16_from_float(scale);
    std::memcpy(block, &bits, sizeof bits);
    for (std::size_t i = 0; i < kBlockElements; ++i)
        block[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(finite(std::round(values[i] * inverse))));
}

// The value furthest from zero, with its sign; a NaN stays the furthest.
inline float furthest_from_zero(std::span<const float, kBlockElements> values) {
    float furthest = 0.0f;
    for (const float value : values)
        if (std::isnan(value) || std::fabs(value) > std::fabs(furthest)) furthest = value;
    return furthest;
}

inline void put_f16(std::uint8_t *to, float value) {
    const std::uint16_t bits = f16_from_float(value);
    std::memcpy(to, &bits, sizeof bits);
}

// Number i beside number i + 16 in the last 16 of a block's bytes; the fifth bits in the four bytes before.
inline void put_numbers(std::uint8_t *block, std::size_t bytes, const std::array<unsigned, kBlockElements> &numbers,
                        bool has_fifth_bits) {
    std::uint8_t *halves = block + bytes - 16;
    for (std::size_t i = 0; i < 16; ++i)
        halves[i] = static_cast<std::uint8_t>((numbers[i] & 15u) | (numbers[i + 16] & 15u) << 4);
    if (!has_fifth_bits) return;
    std::uint32_t fifth_bits = 0;
    for (std::size_t i = 0; i < kBlockElements; ++i) fifth_bits |= (numbers[i] >> 4) << i;
    std::memcpy(halves - 4, &fifth_bits, sizeof fifth_bits);
}

// d = the value furthest from zero / -half; each value floor(value / d + half + 0.5), at most 2 half - 1.
template <unsigned half, std::size_t bytes>
void encode_scaled(std::span<const float, kBlockElements> values, std::uint8_t *block) {
    const float scale = furthest_from_zero(values) / -static_cast<float>(half);
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    put_f16(block, scale);
    std::array<unsigned, kBlockElements> numbers;
    for (std::size_t i = 0; i < kBlockElements; ++i) {
        const float shifted = finite(values[i] * inverse + (static_cast<float>(half) + 0.5f));
        numbers[i] = static_cast<unsigned>(std::fmin(2.0f * half - 1.0f, std::trunc(shifted)));
    }
    put_numbers(block, bytes, numbers, half == 16);
}

// d = (greatest - least) / range; each value floor((value - least) / d + 0.5).
template <unsigned range, std::size_t bytes>
void encode_affine(std::span<const float, kBlockElements> values, std::uint8_t *block) {
    float least = values[0], greatest = values[0];
    bool has_nan = false;
    for (const float value : values) {
        least = std::fmin(least, value);
        greatest = std::fmax(greatest, value);
        has_nan = has_nan || std::isnan(value);
    }
    const float scale = (greatest - least) / static_cast<float>(range);
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    put_f16(block, has_nan ? NAN : scale);
    put_f16(block + 2, least);
    std::array<unsigned, kBlockElements> numbers;
    for (std::size_t i = 0; i < kBlockElements; ++i)
        numbers[i] = static_cast<unsigned>(finite(std::trunc((values[i] - least) * inverse + 0.5f)));
    put_numbers(block, bytes, numbers, range == 31);
}

inline constexpr std::array<float, 16> kIq4NlEntries = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                        1,    13,   25,  38,  53,  69,  89,  113};

// The nearest entry, the greater of two that are as near.
inline unsigned nearest_entry(float value) {
    unsigned nearest = 0;
    for (unsigned entry = 1; entry < kIq4NlEntries.size(); ++entry)
        if (std::fabs(value - kIq4NlEntries[entry]) <= std::fabs(value - kIq4NlEntries[nearest])) nearest = entry;
    return nearest;
}

// By d = the value furthest from zero / the first entry; then d is what makes the squares of the errors, times value^2, least.
inline void encode_iq4_nl(std::span<const float, kBlockElements> values, std::uint8_t *block) {
    const float furthest = furthest_from_zero(values);
    float scale = furthest / kIq4NlEntries[0];
    const float inverse = std::fabs(furthest) > 1e-15f ? 1.0f / scale : 0.0f;
    std::array<unsigned, kBlockElements> numbers;
    float products = 0.0f, squares = 0.0f;
    for (std::size_t i = 0; i < kBlockElements; ++i) {
        numbers[i] = nearest_entry(values[i] * inverse);
        const float entry = kIq4NlEntries[numbers[i]], weight = values[i] * values[i];
        products += weight * entry * values[i];
        squares += weight * entry * entry;
    }
    const float fitted = products / squares;
    if (inverse != 0.0f && std::isfinite(fitted)) scale = fitted;
    put_f16(block, scale);
    put_numbers(block, 18, numbers, false);
}

inline float float_of_f16(const std::uint8_t *from) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    return float_from_f16(bits);
}

inline float block_scale(const std::uint8_t *block) { return float_of_f16(block); }

// Number i of the last 16 of a block's bytes.
inline unsigned half_byte(const std::uint8_t *halves, std::size_t i) {
    return i < 16 ? halves[i] & 15u : static_cast<unsigned>(halves[i - 16] >> 4);
}

// The same with its fifth bit.
inline unsigned five_bits(const std::uint8_t *halves, std::size_t i) {
    const unsigned fifth = static_cast<unsigned>(*(halves - 4 + i / 8) >> i % 8) & 1u;
    return half_byte(halves, i) | fifth << 4;
}

inline float decode_q8_0(const std::uint8_t *block, std::size_t i) {
    return block_scale(block) * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

inline float decode_q4_0(const std::uint8_t *block, std::size_t i) {
    return block_scale(block) * (static_cast<float>(half_byte(block + 2, i)) - 8.0f);
}

inline float decode_q4_1(const std::uint8_t *block, std::size_t i) {
    return block_scale(block) * static_cast<float>(half_byte(block + 4, i)) + float_of_f16(block + 2);
}

inline float decode_q5_0(const std::uint8_t *block, std::size_t i) {
    return block_scale(block) * (static_cast<float>(five_bits(block + 6, i)) - 16.0f);
}

inline float decode_q5_1(const std::uint8_t *block, std::size_t i) {
    return block_scale(block) * static_cast<float>(five_bits(block + 8, i)) + float_of_f16(block + 2);
}

inline float decode_iq4_nl(const std::uint8_t *block, std::size_t i) {
    return block_scale(block) * kIq4NlEntries[half_byte(block + 2, i)];
}

inline float float8_value(unsigned bits, unsigned fraction_bits) {
    const unsigned exponent_bits = 7 - fraction_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const unsigned field = bits >> fraction_bits & ((1u << exponent_bits) - 1),
                   fraction = bits & ((1u << fraction_bits) - 1);
    const float part = std::ldexp(static_cast<float>(fraction), -static_cast<int>(fraction_bits));
    const float size =
        field == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1.0f + part, static_cast<int>(field) - bias);
    const float sign = (bits & 128u) != 0 ? -1.0f : 1.0f;
    if (fraction_bits == 3) return (bits & 127u) == 127u ? NAN : sign * size;
    return field != 31 ? sign * size : fraction != 0 ? NAN : sign * INFINITY;
}

// The nearest of all finite ones; of two as near the even one.
inline std::uint8_t float8_bits(float value, unsigned fraction_bits) {
    const unsigned sign = std::signbit(value) ? 128u : 0u;
    if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 127u);
    unsigned nearest = 0;
    double least = HUGE_VAL;
    for (unsigned bits = 0; bits < 127u && std::isfinite(float8_value(bits, fraction_bits)); ++bits) {
        const double magnitude = std::fabs(std::isinf(value) ? 1e9 : static_cast<double>(value));
        const double error = std::fabs(magnitude - static_cast<double>(float8_value(bits, fraction_bits)));
        if (error < least || (error == least && bits % 2 == 0)) nearest = bits;
        least = std::fmin(error, least);
    }
    return static_cast<std::uint8_t>(sign | nearest);
}

template <unsigned fraction_bits>
void encode_float8(std::span<const float, kBlockElements> values, std::uint8_t *block) {
    for (std::size_t i = 0; i < kBlockElements; ++i) block[i] = float8_bits(values[i], fraction_bits);
}

template <unsigned fraction_bits>
float decode_float8(const std::uint8_t *block, std::size_t i) {
    return float8_value(block[i], fraction_bits);
}

struct BlockCodec {
    vkattn_type type;
    void (*encode)(std::span<const float, kBlockElements> values, std::uint8_t *block);
    float (*decode)(const std::uint8_t *block, std::size_t i);
};

inline constexpr BlockCodec kBlockCodecs[] = {
    {VKATTN_TYPE_Q8_0, encode_q8_0, decode_q8_0},
    {VKATTN_TYPE_Q4_0, encode_scaled<8, 18>, decode_q4_0},
    {VKATTN_TYPE_Q4_1, encode_affine<15, 20>, decode_q4_1},
    {VKATTN_TYPE_Q5_0, encode_scaled<16, 22>, decode_q5_0},
    {VKATTN_TYPE_Q5_1, encode_affine<31, 24>, decode_q5_1},
    {VKATTN_TYPE_IQ4_NL, encode_iq4_nl, decode_iq4_nl},
    {VKATTN_TYPE_F8_E4M3, encode_float8<3>, decode_float8<3>},
    {VKATTN_TYPE_F8_E5M2, encode_float8<2>, decode_float8<2>},
};

// Throws std::out_of_range of a type that has none.
inline const BlockCodec &codec_of(vkattn_type type) {
    for (const BlockCodec &codec : kBlockCodecs)
        if (codec.type == type) return codec;
    throw std::out_of_range("no codec of the type in tests/support/quantised.hpp");
}

} // namespace vkattn_test
