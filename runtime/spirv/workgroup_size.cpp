#include "runtime/spirv/workgroup_size.hpp"

#include "runtime/spirv/numbers.hpp"

#include <algorithm>
#include <map>

namespace vkattn::spirv {

// Three ids say it, which a constant that is the built-in or else the execution mode names, or the mode's own numbers do.
WorkgroupSize::WorkgroupSize(std::span<const uint32_t> code) {
    using Three = std::array<uint32_t, 3>;
    std::map<uint32_t, uint32_t> values, constants; // by the ids of results: numbers, ids of constants
    std::map<uint32_t, Three> composites;
    std::optional<uint32_t> builtin;
    std::optional<Three> ids, numbers;
    for (size_t at = kHeaderWords, words; at < code.size(); at += words) {
        words = code[at] >> 16;
        if (words == 0 || words > code.size() - at) break;
        const auto three = [&](size_t from) {
            return Three{code[at + from], code[at + from + 1], code[at + from + 2]};
        };
        const uint32_t opcode = code[at] & 0xffffu;
        if (opcode == OpDecorate && words == 4 && code[at + 2] == kSpecId) constants[code[at + 1]] = code[at + 3];
        if (opcode == OpDecorate && words == 4 && code[at + 2] == kBuiltIn && code[at + 3] == kBuiltInWorkgroupSize)
            builtin = code[at + 1];
        if ((opcode == OpConstant || opcode == OpSpecConstant) && words == 4) values[code[at + 2]] = code[at + 3];
        if ((opcode == OpConstantComposite || opcode == OpSpecConstantComposite) && words == 6)
            composites[code[at + 2]] = three(3);
        if (opcode == OpExecutionMode && words == 6 && code[at + 2] == kModeLocalSize) numbers = three(3);
        if (opcode == OpExecutionModeId && words == 6 && code[at + 2] == kModeLocalSizeId) ids = three(3);
    }
    if (builtin && composites.contains(*builtin)) ids = composites[*builtin];
    for (size_t axis = 0; axis < 3; ++axis) {
        if (!ids) {
            if (numbers) axes_[axis] = Number{(*numbers)[axis], {}};
            continue;
        }
        const uint32_t id = (*ids)[axis];
        if (!values.contains(id)) continue;
        axes_[axis] = Number{values[id], {}};
        if (constants.contains(id)) axes_[axis]->constant = constants[id];
    }
}

std::optional<uint32_t> WorkgroupSize::invocations(std::span<const ConstantValue> constants) const {
    uint32_t product = 1;
    for (const std::optional<Number> &axis : axes_) {
        if (!axis) return std::nullopt;
        const auto given =
            axis->constant ? std::ranges::find(constants, *axis->constant, &ConstantValue::id) : constants.end();
        product *= given != constants.end() ? given->value : axis->value;
    }
    return product;
}

} // namespace vkattn::spirv
