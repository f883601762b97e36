#include "runtime/spirv/instruction.hpp"

#include <algorithm>
#include <string>

namespace vkattn::spirv {
namespace {

struct Operands {
    uint16_t opcode;
    const char *letters;
};

constexpr Operands kOperands[] = {
#include "runtime/spirv/operands.inc"
};

} // namespace

const char *operands_of(uint32_t opcode) {
    const auto *found =
        std::ranges::lower_bound(kOperands, opcode, {}, [](const Operands &o) { return uint32_t{o.opcode}; });
    if (found == std::end(kOperands) || found->opcode != opcode)
        throw CannotSpecialise("opcode " + std::to_string(opcode) + ", which is unknown");
    return found->letters;
}

} // namespace vkattn::spirv
