#include "module_facts.hpp"

#include "runtime/spirv/numbers.hpp"

#include <unordered_map>

namespace vkattn::gpu_lab {

namespace {

using namespace spirv;

struct Reader {
    std::unordered_map<std::uint32_t, std::uint32_t> values, specialisations; // by the ids of results
    std::optional<std::uint32_t> sized_by;                                    // the constant that is WorkgroupSize
    std::uint32_t mode_ids[3]{};
    ModuleFacts facts;

    void instruction(std::uint32_t opcode, std::span<const std::uint32_t> operands) {
        const std::size_t count = operands.size();
        if (opcode == OpDecorate && count >= 3 && operands[1] == kSpecId) specialisations[operands[0]] = operands[2];
        if (opcode == OpDecorate && count >= 3 && operands[1] == kBuiltIn && operands[2] == kBuiltInWorkgroupSize)
            sized_by = operands[0];
        if ((opcode == OpConstant || opcode == OpSpecConstant) && count >= 3) values[operands[1]] = operands[2];
        if (opcode == OpExecutionMode && count >= 5 && operands[1] == kModeLocalSize)
            for (std::size_t axis = 0; axis < 3; ++axis) facts.size[axis] = ModuleNumber{operands[2 + axis], {}};
        if (opcode == OpExecutionModeId && count >= 5 && operands[1] == kModeLocalSizeId)
            for (std::size_t axis = 0; axis < 3; ++axis) mode_ids[axis] = operands[2 + axis];
        if ((opcode == OpConstantComposite || opcode == OpSpecConstantComposite) && count >= 5 &&
            sized_by == operands[1])
            for (std::size_t axis = 0; axis < 3; ++axis) facts.size[axis] = number(operands[2 + axis]);
    }

    std::optional<ModuleNumber> number(std::uint32_t id) const {
        const auto value = values.find(id);
        if (value == values.end()) return std::nullopt;
        const auto specialisation = specialisations.find(id);
        if (specialisation == specialisations.end()) return ModuleNumber{value->second, {}};
        return ModuleNumber{value->second, specialisation->second};
    }
};

} // namespace

ModuleFacts ModuleFacts::read(std::span<const std::uint32_t> words) {
    Reader reader;
    for (std::size_t at = kHeaderWords; at < words.size();) {
        const std::size_t length = words[at] >> 16;
        if (length == 0 || length > words.size() - at) break;
        reader.instruction(words[at] & 0xffff, words.subspan(at + 1, length - 1));
        at += length;
    }
    // the mode comes before the constants that it names
    for (std::size_t axis = 0; axis < 3 && reader.mode_ids[axis] != 0; ++axis)
        reader.facts.size[axis] = reader.number(reader.mode_ids[axis]);
    return reader.facts;
}

std::optional<std::uint32_t> ModuleFacts::workgroup_size(const Constants &constants) const {
    std::uint32_t product = 1;
    for (const std::optional<ModuleNumber> &number : size) {
        if (!number) return std::nullopt;
        const auto given = number->specialisation ? constants.find(*number->specialisation) : constants.end();
        product *= given != constants.end() ? given->second : number->value;
    }
    return product;
}

} // namespace vkattn::gpu_lab
