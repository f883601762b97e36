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

// d = the value furthest from zero / -8; each value floor(value / d + 8.5), at most 15; value i beside value i + 16.
inline void encode_q4_0(std::span<const float, kBlockElements> values, std::uint8_t *block) {
    float furthest = 0.0f;
    for (const float value : values)
        if (std::isnan(value) || std::fabs(value) > std::fabs(furthest)) furthest = value; // a NaN stays the furthest
    const float scale = furthest / -8.0f;
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    const std::uint16_t bits = f16_from_float(scale);
    std::memcpy(block, &bits, sizeof bits);
    const auto quantised = [&](float value) {
        const float shifted = finite(value * inverse + 8.5f);
        return static_cast<unsigned>(std::fmin(15.0f, std::trunc(shifted)));
    };
    for (std::size_t i = 0; i < kBlockElements / 2; ++i)
        block[2 + i] = static_cast<std::uint8_t>(quantised(values[i]) | (quantised(values[i + 16]) << 4));
}

inline float block_scale(const std::uint8_t *block) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, block, sizeof bits);
    return float_from_f16(bits);
}

inline float decode_q8_0(const std::uint8_t *block, std::size_t i) {
    return block_scale(block) * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

inline float decode_q4_0(const std::uint8_t *block, std::size_t i) {
    const unsigned byte = block[2 + i % 16];
    return block_scale(block) * (static_cast<float>(i < 16 ? byte & 15u : byte >> 4) - 8.0f);
}

struct BlockCodec {
    vkattn_type type;
    void (*encode)(std::span<const float, kBlockElements> values, std::uint8_t *block);
    float (*decode)(const std::uint8_t *block, std::size_t i);
};

inline constexpr BlockCodec kBlockCodecs[] = {
    {VKATTN_TYPE_Q8_0, encode_q8_0, decode_q8_0},
    {VKATTN_TYPE_Q4_0, encode_q4_0, decode_q4_0},
};

// Throws std::out_of_range of a type that has none.
inline const BlockCodec &codec_of(vkattn_type type) {
    for (const BlockCodec &codec : kBlockCodecs)
        if (codec.type == type) return codec;
    throw std::out_of_range("no codec of the type in tests/support/quantised.hpp");
}

} // namespace vkattn_test
