// ggml's super-blocks of 256, in the tests' own words: as ggml's dequantize_row_q4_K, _q5_K and _q6_K walk through them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

namespace vkattn_test {

inline bool is_super_block(vkattn_type type) {
    return type == VKATTN_TYPE_Q4_K || type == VKATTN_TYPE_Q5_K || type == VKATTN_TYPE_Q6_K;
}

inline float half_at(const std::uint8_t *bytes) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    return float_from_f16(bits);
}

using SuperBlock = std::array<float, 256>;

inline SuperBlock decode_q6_K(const std::uint8_t *block) {
    SuperBlock y;
    const std::uint8_t *ql = block, *qh = block + 128, *scales = block + 192;
    for (std::size_t n = 0; n < 256; n += 128, ql += 64, qh += 32, scales += 8)
        for (std::size_t l = 0; l < 32; ++l) {
            const int numbers[4] = {(ql[l] & 15) | (qh[l] & 3) << 4, (ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4,
                                    ql[l] >> 4 | (qh[l] >> 4 & 3) << 4, ql[l + 32] >> 4 | (qh[l] >> 6 & 3) << 4};
            for (std::size_t k = 0; k < 4; ++k)
                y[n + 32 * k + l] = half_at(block + 208) * static_cast<std::int8_t>(scales[l / 16 + 2 * k]) *
                                    static_cast<float>(numbers[k] - 32);
        }
    return y;
}

inline SuperBlock decode_q4_K_or_q5_K(const std::uint8_t *block, bool has_fifth_bits) {
    SuperBlock y;
    const std::uint8_t *s = block + 4, *qh = block + 16, *qs = block + (has_fifth_bits ? 48 : 16);
    for (std::size_t j = 0; j < 8; ++j) {
        const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        const int minimum = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
        for (std::size_t l = 0; l < 32; ++l) {
            const std::uint8_t both = qs[j / 2 * 32 + l];
            const int fifth = has_fifth_bits ? (qh[l] >> j & 1) << 4 : 0;
            y[32 * j + l] =
                half_at(block) * static_cast<float>(scale * ((j % 2 == 0 ? both & 15 : both >> 4) | fifth)) -
                half_at(block + 2) * static_cast<float>(minimum);
        }
    }
    return y;
}

// Tests read elements one after the other: the block is decoded once.
inline float super_block_value(vkattn_type type, const std::uint8_t *block, std::size_t i) {
    thread_local std::array<std::uint8_t, 210> bytes{};
    thread_local vkattn_type decoded_type = VKATTN_TYPE_NONE;
    thread_local SuperBlock numbers{};
    const std::size_t size = type == VKATTN_TYPE_Q4_K ? 144 : type == VKATTN_TYPE_Q5_K ? 176 : 210;
    if (decoded_type != type || std::memcmp(bytes.data(), block, size) != 0) {
        std::memcpy(bytes.data(), block, size);
        numbers = type == VKATTN_TYPE_Q6_K ? decode_q6_K(block) : decode_q4_K_or_q5_K(block, type == VKATTN_TYPE_Q5_K);
        decoded_type = type;
    }
    return numbers[i];
}

// Random bytes between scales that give numbers of about this deviation.
inline void fill_super_block(vkattn_type type, std::span<std::uint8_t> block, std::mt19937 &random, float deviation) {
    std::uniform_int_distribution<int> byte(0, 255);
    std::uniform_real_distribution<float> factor(0.5f, 1.5f);
    for (std::uint8_t &each : block) each = static_cast<std::uint8_t>(byte(random));
    const float numbers = type == VKATTN_TYPE_Q6_K ? 1366.0f : type == VKATTN_TYPE_Q5_K ? 450.0f : 220.0f;
    const auto put = [&](std::size_t at, float value) {
        const std::uint16_t bits = f16_from_float(value);
        std::memcpy(&block[at], &bits, sizeof bits);
    };
    const float scale = deviation / numbers * factor(random);
    put(type == VKATTN_TYPE_Q6_K ? 208 : 0, scale);
    if (type != VKATTN_TYPE_Q6_K) put(2, scale * (type == VKATTN_TYPE_Q5_K ? 15.5f : 7.5f));
}

} // namespace vkattn_test
