#include "runtime/trials/trial_values.hpp"

#include "runtime/support/rounding.hpp"

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

// A scale of 1/64 and random integers.
void append_quantised(std::vector<std::byte> &bytes, uint32_t block_bytes, TrialNumbers &numbers) {
    const uint16_t scale = 0x2400;
    append(bytes, &scale, sizeof scale);
    for (uint32_t i = sizeof scale; i < block_bytes; ++i) {
        const auto low = static_cast<uint32_t>(numbers.next() * 8 + 8),
                   high = static_cast<uint32_t>(numbers.next() * 8 + 8);
        bytes.push_back(static_cast<std::byte>(low | high << 4));
    }
}

void append_block(std::vector<std::byte> &bytes, vkattn_type type, TrialNumbers &numbers) {
    if (is_quantised(type)) return append_quantised(bytes, storage_block(type).bytes, numbers);
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

// A scale, then 32 bytes, or 16 of which the low halves come first, less 8.
float quantised_value(const std::byte *block, vkattn_type type, uint64_t i) {
    const float scale = value_at(block, VKATTN_TYPE_F16);
    const std::byte *values = block + sizeof(uint16_t);
    if (type == VKATTN_TYPE_Q8_0) return scale * static_cast<float>(static_cast<int8_t>(values[i]));
    const auto both = static_cast<uint32_t>(values[i % 16]);
    return scale * (static_cast<float>(i < 16 ? both & 15u : both >> 4) - 8.0f);
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
        numbers[i] = is_quantised(tensor.type) ? quantised_value(block, tensor.type, i % elements)
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
