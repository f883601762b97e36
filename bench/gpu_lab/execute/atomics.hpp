// What data share and vector memory have in common: atomic operations, and results of 8 or 16 bits.
#pragma once
#include "instruction.hpp"
#include "numbers.hpp"

#include <algorithm>

namespace execute {

inline constexpr auto kAdd = [](uint32_t old, uint32_t value) { return old + value; };
inline constexpr auto kSubtract = [](uint32_t old, uint32_t value) { return old - value; };
inline constexpr auto kAnd = [](uint32_t old, uint32_t value) { return old & value; };
inline constexpr auto kOr = [](uint32_t old, uint32_t value) { return old | value; };
inline constexpr auto kXor = [](uint32_t old, uint32_t value) { return old ^ value; };
inline constexpr auto kSwap = [](uint32_t, uint32_t value) { return value; };
inline constexpr auto kMinSigned = [](uint32_t old, uint32_t value) {
    return uint32_t(std::min(as_signed(old), as_signed(value)));
};
inline constexpr auto kMaxSigned = [](uint32_t old, uint32_t value) {
    return uint32_t(std::max(as_signed(old), as_signed(value)));
};
inline constexpr auto kMinUnsigned = [](uint32_t old, uint32_t value) { return std::min(old, value); };
inline constexpr auto kMaxUnsigned = [](uint32_t old, uint32_t value) { return std::max(old, value); };
inline constexpr auto kAddFloat = [](uint32_t old, uint32_t value) { return as_bits(as_float(old) + as_float(value)); };

enum class Half { whole, low, high };

// A destination of 16 bits keeps the register's other half.
inline void put_small(uint32_t &target, uint32_t value, const Operand &destination, Half half) {
    if (destination.is_half) half = destination.is_high ? Half::high : Half::low;
    if (half == Half::whole)
        target = value;
    else if (half == Half::high)
        target = (target & 0xffff) | value << 16;
    else
        target = (target & 0xffff0000) | (value & 0xffff);
}

} // namespace execute
