#pragma once

#include <cstdint>
#include <optional>

// What integer and boolean instructions give of operands that are known. A word is 32 bits; of a bool it is 0 or 1.
namespace vkattn::spirv {

// Returns the result where all operands are known; those that the instruction has not are ignored. Nothing where the result
// is undefined, or the instruction is another.
std::optional<uint32_t> folded(uint32_t opcode, uint32_t a, uint32_t b, uint32_t c);

// As folded(), of a function of GLSL.std.450.
std::optional<uint32_t> folded_function(uint32_t function, uint32_t a, uint32_t b);

// What a result is where one of two operands is known.
struct HalfFolded {
    enum { kUnknown, kOtherOperand, kValue } is = kUnknown;
    uint32_t value = 0;
};
HalfFolded half_folded(uint32_t opcode, uint32_t known, bool is_left);

// Returns the result where both operands are the same one, known or not.
std::optional<uint32_t> folded_of_equals(uint32_t opcode);

// Whether a function of GLSL.std.450 also stores through a pointer.
bool stores_a_result(uint32_t function);

} // namespace vkattn::spirv
