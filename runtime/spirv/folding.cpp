#include "runtime/spirv/folding.hpp"

#include "runtime/spirv/instruction.hpp"

#include <algorithm>

namespace vkattn::spirv {
namespace {

enum : uint32_t { kModf = 35, kUMin = 38, kSMin = 39, kUMax = 41, kSMax = 42, kFrexp = 51 }; // of GLSL.std.450

int32_t signed_of(uint32_t word) { return static_cast<int32_t>(word); }
uint32_t unsigned_of(int32_t word) { return static_cast<uint32_t>(word); }

std::optional<uint32_t> bit_field(uint32_t base, uint32_t offset, uint32_t count, bool is_signed) {
    if (count == 0 || count > 32 || offset > 32 - count) return std::nullopt;
    const uint32_t top = base << (32 - count - offset);
    return is_signed ? unsigned_of(signed_of(top) >> (32 - count)) : top >> (32 - count);
}

std::optional<uint32_t> divided(uint32_t opcode, uint32_t a, uint32_t b) {
    if (b == 0) return std::nullopt;
    const int32_t x = signed_of(a), y = signed_of(b);
    switch (opcode) {
    case OpUDiv:
        return a / b;
    case OpUMod:
        return a % b;
    case OpSDiv: // -1 could overflow
        return y == -1 ? std::nullopt : std::optional(unsigned_of(x / y));
    case OpSRem:
        return y == -1 ? std::nullopt : std::optional(unsigned_of(x % y));
    default: // OpSMod: as OpUMod of numbers that are not negative
        return x < 0 || y < 0 ? std::nullopt : std::optional(a % b);
    }
}

std::optional<uint32_t> shifted(uint32_t opcode, uint32_t a, uint32_t b) {
    if (b > 31) return std::nullopt;
    if (opcode == OpShiftLeftLogical) return a << b;
    return opcode == OpShiftRightLogical ? a >> b : unsigned_of(signed_of(a) >> b);
}

std::optional<uint32_t> compared(uint32_t opcode, uint32_t a, uint32_t b) {
    const int32_t x = signed_of(a), y = signed_of(b);
    switch (opcode) {
    case OpLogicalEqual:
    case OpIEqual:
        return a == b;
    case OpLogicalNotEqual:
    case OpINotEqual:
        return a != b;
    case OpUGreaterThan:
        return a > b;
    case OpSGreaterThan:
        return x > y;
    case OpUGreaterThanEqual:
        return a >= b;
    case OpSGreaterThanEqual:
        return x >= y;
    case OpULessThan:
        return a < b;
    case OpSLessThan:
        return x < y;
    case OpULessThanEqual:
        return a <= b;
    case OpSLessThanEqual:
        return x <= y;
    default:
        return std::nullopt;
    }
}

} // namespace

std::optional<uint32_t> folded(uint32_t opcode, uint32_t a, uint32_t b, uint32_t c) {
    switch (opcode) {
    case OpBitcast:
    case OpCopyObject:
        return a;
    case OpSNegate:
        return 0 - a;
    case OpIAdd:
        return a + b;
    case OpISub:
        return a - b;
    case OpIMul:
        return a * b;
    case OpUDiv:
    case OpUMod:
    case OpSDiv:
    case OpSRem:
    case OpSMod:
        return divided(opcode, a, b);
    case OpLogicalOr:
    case OpBitwiseOr:
        return a | b;
    case OpLogicalAnd:
    case OpBitwiseAnd:
        return a & b;
    case OpLogicalNot:
        return a == 0;
    case OpShiftRightLogical:
    case OpShiftRightArithmetic:
    case OpShiftLeftLogical:
        return shifted(opcode, a, b);
    case OpBitwiseXor:
        return a ^ b;
    case OpNot:
        return ~a;
    case OpBitFieldSExtract:
    case OpBitFieldUExtract:
        return bit_field(a, b, c, opcode == OpBitFieldSExtract);
    default:
        return compared(opcode, a, b);
    }
}

std::optional<uint32_t> folded_function(uint32_t function, uint32_t a, uint32_t b) {
    switch (function) {
    case kUMin:
        return std::min(a, b);
    case kUMax:
        return std::max(a, b);
    case kSMin:
        return unsigned_of(std::min(signed_of(a), signed_of(b)));
    case kSMax:
        return unsigned_of(std::max(signed_of(a), signed_of(b)));
    default:
        return std::nullopt;
    }
}

HalfFolded half_folded(uint32_t opcode, uint32_t known, bool is_left) {
    constexpr uint32_t kAllBits = ~0u;
    const auto other_if = [](bool holds) {
        return HalfFolded{holds ? HalfFolded::kOtherOperand : HalfFolded::kUnknown, 0};
    };
    const auto value_if = [](bool holds, uint32_t value) {
        return HalfFolded{holds ? HalfFolded::kValue : HalfFolded::kUnknown, value};
    };
    switch (opcode) {
    case OpIAdd:
    case OpBitwiseXor:
        return other_if(known == 0);
    case OpBitwiseOr:
        return known == kAllBits ? value_if(true, kAllBits) : other_if(known == 0);
    case OpBitwiseAnd:
        return known == 0 ? value_if(true, 0) : other_if(known == kAllBits);
    case OpISub:
        return other_if(!is_left && known == 0);
    case OpShiftLeftLogical:
    case OpShiftRightLogical:
    case OpShiftRightArithmetic:
        return is_left ? value_if(known == 0, 0) : other_if(known == 0);
    case OpIMul:
        return known == 0 ? value_if(true, 0) : other_if(known == 1);
    case OpUDiv:
        return other_if(!is_left && known == 1);
    case OpUMod:
        return value_if(!is_left && known == 1, 0);
    case OpLogicalAnd:
        return known == 0 ? value_if(true, 0) : other_if(true);
    case OpLogicalOr:
        return known != 0 ? value_if(true, 1) : other_if(true);
    case OpUGreaterThanEqual:
        return value_if(!is_left && known == 0, 1);
    case OpULessThan:
        return value_if(!is_left && known == 0, 0);
    case OpUGreaterThan:
        return value_if(is_left && known == 0, 0);
    case OpULessThanEqual:
        return value_if(is_left && known == 0, 1);
    default:
        return {};
    }
}

std::optional<uint32_t> folded_of_equals(uint32_t opcode) {
    switch (opcode) {
    case OpIEqual:
    case OpUGreaterThanEqual:
    case OpULessThanEqual:
        return 1;
    case OpINotEqual:
    case OpUGreaterThan:
    case OpULessThan:
    case OpISub:
        return 0;
    default:
        return std::nullopt;
    }
}

bool stores_a_result(uint32_t function) { return function == kModf || function == kFrexp; }

} // namespace vkattn::spirv
