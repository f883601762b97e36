#pragma once

#include "runtime/spirv/numbers.hpp"
#include "runtime/spirv/specialise.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

// Instructions and their operands, by the numbers of the SPIR-V specification.
namespace vkattn::spirv {

constexpr uint32_t first_word(uint32_t opcode, size_t words) { return static_cast<uint32_t>(words) << 16 | opcode; }

// One instruction, where it lies; a default one is none, and has no words.
class Instruction {
  public:
    Instruction() = default;
    explicit Instruction(uint32_t *words) : words_(words) {}

    explicit operator bool() const { return words_ != nullptr; }
    friend bool operator==(Instruction, Instruction) = default;

    uint32_t opcode() const { return words_ == nullptr ? OpNop : *words_ & 0xffffu; }
    uint32_t size() const { return words_ == nullptr ? 0 : *words_ >> 16; }
    // Throws CannotSpecialise beyond its words.
    uint32_t &operator[](size_t index) const {
        if (index >= size()) throw CannotSpecialise("an instruction that lacks operands");
        return words_[index];
    }
    std::span<uint32_t> words() const { return {words_, size()}; }
    // The operands from this word on; none beyond the end.
    std::span<uint32_t> from(size_t index) const {
        return index < size() ? words().subspan(index) : std::span<uint32_t>();
    }
    uint32_t *data() const { return words_; }

  private:
    uint32_t *words_ = nullptr;
};

// Returns which words of an instruction are ids, a letter an operand; operands.inc says which letter is what. Throws
// CannotSpecialise for an opcode that is not in the table.
const char *operands_of(uint32_t opcode);

// Calls visit(word) for each id of the instruction that is not its result. Returns the index of its result; 0: it has none.
template <class Visit>
uint32_t for_ids(Instruction instruction, Visit visit) {
    const uint32_t words = instruction.size();
    const char *letter = operands_of(instruction.opcode()), *again = nullptr;
    uint32_t result = 0;
    const auto has_no_end = [](uint32_t text) { return std::bit_cast<std::array<char, 4>>(text)[3] != 0; };
    for (uint32_t i = 1; i < words; ++letter) {
        if (*letter == '*') letter = again;
        switch (*letter) {
        case '!':
            break;
        case '(':
            again = letter;
            break;
        case 'R':
            result = i++;
            break;
        case 'T':
        case 'i':
            visit(instruction[i++]);
            break;
        case 's': // its last word has a zero byte
            while (has_no_end(instruction[i++])) {
            }
            break;
        case 'M': { // a mask; its bits are followed by an alignment, and by ids of scopes and aliases
            const uint32_t mask = instruction[i++];
            for (uint32_t bit = 0; bit < 18; ++bit) {
                if ((mask >> bit & 1) == 0) continue;
                if (bit == 1) ++i;
                if (bit == 3 || bit == 4 || bit >= 16) visit(instruction[i++]);
            }
            break;
        }
        case 'I':
        case 'A': // a mask, followed by ids
            for (++i; i < words;) visit(instruction[i++]);
            break;
        case '\0':
            return result;
        default:
            ++i;
        }
    }
    return result;
}

// Whether the instruction only gives its result: it goes where nothing needs that.
inline bool only_gives_its_result(Instruction instruction) {
    const std::string_view operands = operands_of(instruction.opcode());
    const bool is_volatile =
        instruction.opcode() == OpLoad && instruction.size() > 4 && (instruction[4] & kMemoryVolatile) != 0;
    return !operands.starts_with('!') && operands.find('R') != operands.npos && !is_volatile;
}

inline bool is_access_chain(uint32_t opcode) { return opcode == OpAccessChain || opcode == OpInBoundsAccessChain; }
// The index of the word that names a function, which the driver calls for elements of a matrix; 0: there is none.
inline size_t callback_of(uint32_t opcode) {
    return opcode == OpCooperativeMatrixReduceNV ? 5 : opcode == OpCooperativeMatrixPerElementOpNV ? 4 : 0;
}

inline bool is_line(uint32_t opcode) { return opcode == OpLine || opcode == OpNoLine; }

// Calls visit(label) for each block that a terminator goes to.
template <class Visit>
void for_targets(Instruction terminator, Visit visit) {
    switch (terminator.opcode()) {
    case OpBranch:
        visit(terminator[1]);
        break;
    case OpBranchConditional:
        visit(terminator[2]);
        visit(terminator[3]);
        break;
    case OpSwitch: // a selector of 32 bits
        visit(terminator[2]);
        for (uint32_t i = 4; i < terminator.size(); i += 2) visit(terminator[i]);
        break;
    default:
        break;
    }
}

} // namespace vkattn::spirv
