#pragma once

#include "runtime/problem/tensor.hpp"
#include "runtime/vulkan/memory.hpp"

#include <span>
#include <vector>

namespace vkattn {

// What the self-test and tuning compute with.

// Small multiples of 1/8, which f16 and bf16 hold exactly, in an order without a period that a wrong stride would meet.
class TrialNumbers {
  public:
    float next() {
        state_ = state_ * 1664525u + 1013904223u;
        return static_cast<float>(static_cast<int>(state_ >> 28) - 8) / 8.0f;
    }

  private:
    uint32_t state_ = 1;
};

// Bits of a multiple of 1/8 between -1 and 1.
uint16_t f16_bits(float value);
uint16_t bf16_bits(float value);

// Fills a tensor of any storage type with such numbers; of a large one the numbers come again.
void fill_with_numbers(Buffer &buffer, const vkattn_tensor &tensor, TrialNumbers &numbers);

// The bytes of a contiguous tensor of such numbers, and the elements that such bytes hold.
std::vector<std::byte> bytes_of_numbers(const vkattn_tensor &tensor, TrialNumbers &numbers);
std::vector<float> numbers_in(std::span<const std::byte> bytes, const vkattn_tensor &tensor);

// Every element of a normalised 4-D tensor of F32, F16 or BF16, the last dimension fastest.
std::vector<float> read_numbers(Buffer &buffer, const vkattn_tensor &tensor);

// Normalised mean squared error: squared differences over squares. NaN where a number is.
double nmse(std::span<const float> actual, std::span<const double> expected);

} // namespace vkattn
