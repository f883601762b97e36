#include "runtime/trials/trial_values.hpp"

#include "runtime/support/rounding.hpp"
#include "shaders/interface/stored_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace vkattn {
namespace {

constexpr uint64_t kPeriod = 65521; // storage blocks, a prime: rows of any size differ

void append(std::vector<std::byte> &bytes, const void *data, size_t size) {
    const auto *begin = static_cast<const std::byte *>(data);
    bytes.insert(bytes.end(), begin, begin + size);
}

// Floats of 8 bits up to 2.
void append_floats8(std::vector<std::byte> &bytes, TrialNumbers &numbers) {
    for (uint32_t i = 0; i < QUANTISED_BLOCK; ++i) {
        const float number = numbers.next();
        bytes.push_back(static_cast<std::byte>(static_cast<uint32_t>(std::fabs(number) * 63) | (number < 0 ? 128 : 0)));
    }
}

// A scale of 1/64, a minimum of -1/8 and random integers.
void append_quantised(std::vector<std::byte> &bytes, const StoredType &type, TrialNumbers &numbers) {
    if (type.fraction_bits != 0) return append_floats8(bytes, numbers);
    const uint16_t affine[] = {0x2400, 0xb000};
    const uint32_t affine_bytes = type.info.has_minimum != 0 ? 4 : 2;
    append(bytes, affine, affine_bytes);
    for (uint32_t i = affine_bytes; i < type.info.block_bytes; ++i) {
        const auto low = static_cast<uint32_t>(numbers.next() * 8 + 8),
                   high = static_cast<uint32_t>(numbers.next() * 8 + 8);
        bytes.push_back(static_cast<std::byte>(low | high << 4));
    }
}

void append_block(std::vector<std::byte> &bytes, vkattn_type type, TrialNumbers &numbers) {
    if (is_quantised(type)) return append_quantised(bytes, stored_type(type), numbers);
    const float value = numbers.next();
    const uint16_t bits = type == VKATTN_TYPE_F16 ? f16_bits(value) : bf16_bits(value);
    if (type == VKATTN_TYPE_F32)
        append(bytes, &value, sizeof value);
    else
        append(bytes, &bits, sizeof bits);
}

} // namespace

namespace {

float f16_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const auto fraction = static_cast<float>(bits & 0x3ff);
    const float size = exponent == 31  ? (fraction == 0.0f ? INFINITY : NAN)
                       : exponent == 0 ? std::ldexp(fraction, -24)
                                       : std::ldexp(1024.0f + fraction, exponent - 25);
    return (bits & 0x8000u) != 0 ? -size : size;
}

float value_at(const std::byte *data, vkattn_type type) {
    float value = 0.0f;
    uint16_t bits = 0;
    if (type == VKATTN_TYPE_F32) {
        std::memcpy(&value, data, sizeof value);
        return value;
    }
    std::memcpy(&bits, data, sizeof bits);
    return type == VKATTN_TYPE_F16 ? f16_value(bits) : std::bit_cast<float>(uint32_t{bits} << 16);
}

// Number i of a block, as stored_types.h says it lies there.
int number_of(const std::byte *block, const StoredType &type, uint64_t i) {
    const std::byte *end = block + type.info.block_bytes;
    if (type.info.number_bits == 8) return static_cast<int8_t>(*(end - QUANTISED_BLOCK + i));
    const auto both = std::to_integer<int>(*(end - QUANTISED_BLOCK / 2 + i % (QUANTISED_BLOCK / 2)));
    int number = i < QUANTISED_BLOCK / 2 ? both & 15 : both >> 4;
    if (type.info.number_bits == 5) {
        const std::byte *fifth_bits = end - QUANTISED_BLOCK / 2 - QUANTISED_BLOCK / 8;
        number |= (std::to_integer<int>(fifth_bits[i / 8]) >> i % 8 & 1) << 4;
    }
    if (!type.entries.empty()) return type.entries[static_cast<size_t>(number)];
    return type.info.has_minimum != 0 ? number : number - (1 << (type.info.number_bits - 1));
}

float float8_value(std::byte byte, uint32_t fraction_bits) {
    const auto bits = std::to_integer<uint32_t>(byte) & 127u;
    const uint32_t field = bits >> fraction_bits, one = 1u << fraction_bits;
    const int least_exponent = 2 - (1 << (6 - fraction_bits));
    const auto fraction = static_cast<float>((bits & (one - 1)) + (field != 0 ? one : 0));
    const int exponent = static_cast<int>(std::max(field, 1u)) - 1 + least_exponent - static_cast<int>(fraction_bits);
    const float size = std::ldexp(fraction, exponent);
    return (byte & std::byte{128}) != std::byte{0} ? -size : size;
}

float quantised_value(const std::byte *block, const StoredType &type, uint64_t i) {
    if (type.fraction_bits != 0) return float8_value(block[i], type.fraction_bits);
    const float minimum = type.info.has_minimum != 0 ? value_at(block + sizeof(uint16_t), VKATTN_TYPE_F16) : 0.0f;
    return value_at(block, VKATTN_TYPE_F16) * static_cast<float>(number_of(block, type, i)) + minimum;
}

} // namespace

uint16_t f16_bits(float value) {
    if (value == 0.0f) return 0;
    const uint32_t sign = value < 0 ? 0x8000u : 0u;
    int exponent = 0;
    const float fraction = std::frexp(std::fabs(value), &exponent); // 0.5 <= fraction < 1
    const auto mantissa = static_cast<uint32_t>(fraction * 2048.0f) & 0x3ffu;
    return static_cast<uint16_t>(sign | (static_cast<uint32_t>(exponent + 14) << 10) | mantissa);
}

uint16_t bf16_bits(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

std::vector<std::byte> bytes_of_numbers(const vkattn_tensor &tensor, TrialNumbers &numbers) {
    std::vector<std::byte> bytes;
    const uint64_t blocks = divide_up(extent_elements(tensor), storage_block(tensor.type).elements);
    for (uint64_t block = 0; block < blocks; ++block) append_block(bytes, tensor.type, numbers);
    bytes.resize(extent_bytes(tensor));
    return bytes;
}

std::vector<float> numbers_in(std::span<const std::byte> bytes, const vkattn_tensor &tensor) {
    const auto [elements, size] = storage_block(tensor.type);
    std::vector<float> numbers(extent_elements(tensor));
    for (uint64_t i = 0; i < numbers.size(); ++i) {
        const std::byte *block = &bytes[i / elements * size];
        numbers[i] = is_quantised(tensor.type) ? quantised_value(block, stored_type(tensor.type), i % elements)
                                               : value_at(block, tensor.type);
    }
    return numbers;
}

void fill_with_numbers(Buffer &buffer, const vkattn_tensor &tensor, TrialNumbers &numbers) {
    std::vector<std::byte> bytes;
    const uint64_t blocks = divide_up(extent_elements(tensor), storage_block(tensor.type).elements);
    for (uint64_t block = 0; block < std::min(blocks, kPeriod); ++block) append_block(bytes, tensor.type, numbers);
    for (uint64_t begin = 0; begin < buffer.bytes(); begin += bytes.size())
        buffer.write(begin, bytes.data(), std::min<uint64_t>(bytes.size(), buffer.bytes() - begin));
}

std::vector<float> read_numbers(Buffer &buffer, const vkattn_tensor &tensor) {
    std::vector<std::byte> bytes(extent_bytes(tensor));
    buffer.read(0, bytes.data(), bytes.size());
    std::vector<float> numbers;
    const auto &shape = tensor.shape;
    const auto &strides = tensor.strides;
    for (uint64_t i = 0; i < shape[0] * shape[1] * shape[2] * shape[3]; ++i) {
        const uint64_t rest = i / shape[3];
        const uint64_t element = tensor.offset + i % shape[3] * strides[3] + rest % shape[2] * strides[2] +
                                 rest / shape[2] % shape[1] * strides[1] + rest / shape[2] / shape[1] * strides[0];
        numbers.push_back(value_at(&bytes[bytes_of(tensor.type, element)], tensor.type));
    }
    return numbers;
}

double nmse(std::span<const float> actual, std::span<const double> expected) {
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
        const double difference = static_cast<double>(actual[i]) - expected[i];
        error += difference * difference;
        size += expected[i] * expected[i];
    }
    return error == 0.0 ? 0.0 : error / size;
}

} // namespace vkattn
