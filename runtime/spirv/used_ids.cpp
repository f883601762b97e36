#include "runtime/spirv/used_ids.hpp"

#include "runtime/spirv/instruction.hpp"

#include <algorithm>

namespace vkattn::spirv {
namespace {

class UsedIds {
  public:
    explicit UsedIds(std::span<const uint32_t> code)
        : code_(code.begin(), code.end()), used_(std::min<size_t>(code[kHeaderBound], code.size())) {}

    std::vector<bool> run() {
        bool is_function = false;
        for (size_t at = kHeaderWords; at < code_.size();) {
            const Instruction instruction(&code_[at]);
            if (instruction.size() == 0 || instruction.size() > code_.size() - at)
                throw CannotSpecialise("an instruction that does not end within the module");
            at += instruction.size();
            is_function = is_function || instruction.opcode() == OpFunction;
            read(instruction, is_function);
        }
        while (mark_what_globals_need()) { // again where a type was announced before it is there
        }
        return std::move(used_);
    }

  private:
    void mark(uint32_t id) { used_.at(id) = true; }

    void read(Instruction instruction, bool is_of_function) {
        const uint32_t opcode = instruction.opcode();
        const bool is_size = opcode == OpDecorate && instruction.size() == 4 && instruction[2] == kBuiltIn &&
                             instruction[3] == kBuiltInWorkgroupSize;
        if (is_size) mark(instruction[1]);
        if (is_of_function || opcode == OpExecutionModeId)
            for_ids(instruction, [&](uint32_t id) { mark(id); });
        else if (opcode >= OpTypeVoid && !is_line(opcode))
            globals_.push_back(instruction);
    }

    bool mark_what_globals_need() {
        const auto before = std::ranges::count(used_, true);
        for (auto global = globals_.rbegin(); global != globals_.rend(); ++global) {
            const uint32_t result = for_ids(*global, [](uint32_t) {});
            if (result != 0 && used_.at((*global)[result])) for_ids(*global, [&](uint32_t id) { mark(id); });
        }
        return std::ranges::count(used_, true) != before;
    }

    std::vector<uint32_t> code_;
    std::vector<bool> used_;
    std::vector<Instruction> globals_; // types, constants and variables; decorations have no result
};

} // namespace

std::vector<bool> used_ids(std::span<const uint32_t> code) {
    if (code.size() < kHeaderWords) return {};
    try {
        return UsedIds(code).run();
    } catch (const std::exception &) { // CannotSpecialise, or an id that is not there
        return std::vector<bool>(code[kHeaderBound] < code.size() ? code[kHeaderBound] : code.size(), true);
    }
}

} // namespace vkattn::spirv
