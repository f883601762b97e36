#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

namespace vkattn {

// Units that cover a size.
constexpr auto divide_up(std::unsigned_integral auto size, std::unsigned_integral auto unit) {
    return (size + unit - 1) / unit;
}

// The size in whole units.
constexpr auto round_up(std::unsigned_integral auto size, std::unsigned_integral auto unit) {
    return divide_up(size, unit) * unit;
}

// The smallest n for which value <= 2^n; value >= 1.
constexpr uint32_t log2_up(uint64_t value) { return static_cast<uint32_t>(std::bit_width(value - 1)); }

} // namespace vkattn
