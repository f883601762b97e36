#include "assembly_text.hpp"

#include "instruction_table.hpp"
#include "numbers.hpp"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace execute {
namespace {

using std::string;

string trimmed(const string &text) {
    const size_t first = text.find_first_not_of(" \t");
    return first == string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Splits outside of brackets and bars.
std::vector<string> split(const string &text, char separator) {
    std::vector<string> pieces(1);
    int depth = 0;
    bool in_bars = false;
    for (const char c : text) {
        depth += (c == '[' || c == '(') - (c == ']' || c == ')');
        in_bars ^= c == '|';
        if (c == separator && depth == 0 && !in_bars)
            pieces.emplace_back();
        else
            pieces.back() += c;
    }
    std::vector<string> result;
    for (const string &piece : pieces)
        if (!trimmed(piece).empty()) result.push_back(trimmed(piece));
    return result;
}

bool read_registers(const string &text, const char *prefix, int base, Source source, Operand &operand) {
    const size_t length = strlen(prefix);
    if (text.compare(0, length, prefix) != 0 || text.size() <= length) return false;
    unsigned first = 0, last = 0;
    const char *rest = text.c_str() + length;
    if (sscanf(rest, "[%u:%u]", &first, &last) == 2) {
    } else if (sscanf(rest, "[%u]", &first) == 1) {
        last = first;
    } else if (isdigit(*rest)) {
        char *end;
        first = last = unsigned(strtoul(rest, &end, 10));
        operand.is_half = *end == '.';
        operand.is_high = operand.is_half && end[1] == 'h';
        if (*end && !operand.is_half) return false;
    } else {
        return false;
    }
    operand.source = source;
    operand.index = uint16_t(unsigned(base) + first);
    operand.count = uint8_t(last - first + 1);
    return true;
}

bool read_named_register(const string &text, Operand &operand) {
    struct Name {
        const char *name;
        uint16_t index;
        uint8_t count;
    };
    static constexpr Name kNames[] = {
        {"vcc", kVcc, 2},
        {"vcc_lo", kVcc, 1},
        {"vcc_hi", kVcc + 1, 1},
        {"exec", kExec, 2},
        {"exec_lo", kExec, 1},
        {"exec_hi", kExec + 1, 1},
        {"m0", kM0, 1},
        {"null", kNull, 1},
        {"scc", kScc, 1},
        {"src_scc", kScc, 1},
        {"flat_scratch", kFlatScratch, 2},
        {"flat_scratch_lo", kFlatScratch, 1},
        {"flat_scratch_hi", kFlatScratch + 1, 1},
    };
    for (const Name &name : kNames)
        if (text == name.name) {
            operand.source = Source::scalar;
            operand.index = name.index;
            operand.count = name.count;
            return true;
        }
    return false;
}

bool read_constant(const string &text, Operand &operand) {
    if (!isdigit(text[0]) && text[0] != '-') return false;
    char *end;
    operand.source = Source::constant;
    const bool is_hexadecimal = text.compare(0, 2, "0x") == 0;
    if (!is_hexadecimal && text.find('.') != string::npos) {
        operand.is_float = true;
        operand.number = strtod(text.c_str(), &end);
        operand.constant = as_bits(float(operand.number));
        if (operand.constant == 0x3e22f983 || text == "0.15915494") operand.constant = 0x3e22f983; // 1 / (2 pi)
    } else {
        operand.constant = is_hexadecimal ? strtoull(text.c_str(), &end, 0) : uint64_t(strtoll(text.c_str(), &end, 0));
    }
    return *end == 0;
}

bool read_operand(const string &text, Operand &operand) {
    const auto within = [&](const char *opening) {
        const size_t length = strlen(opening);
        return text.compare(0, length, opening) == 0 && text.back() == ')' && text.size() > length + 1;
    };
    const auto inner = [&](size_t begin) { return read_operand(text.substr(begin, text.size() - begin - 1), operand); };
    if (text.empty()) return false;
    if (within("lit(")) return inner(4);
    if (within("neg(")) return inner(4) && (operand.negate = true);
    if (within("abs(")) return inner(4) && (operand.absolute = true);
    if (within("sext(")) return inner(5) && (operand.sign_extend = true);
    if (text[0] == '|') return inner(1) && (operand.absolute = true);
    if (text[0] == '-' && text.size() > 1 && !isdigit(text[1]))
        return read_operand(text.substr(1), operand) && (operand.negate = true);
    if (text == "off") return true;
    return read_named_register(text, operand) || read_registers(text, "v", 0, Source::vector, operand) ||
           read_registers(text, "ttmp", kTrap, Source::scalar, operand) ||
           read_registers(text, "s", 0, Source::scalar, operand) || read_constant(text, operand);
}

uint8_t read_bits(const string &value) { // [1,0,1]: bit 0 first
    uint8_t bits = 0;
    int k = 0;
    for (const char c : value)
        if (c == '0' || c == '1') bits = uint8_t(bits | (c - '0') << k++);
    return bits;
}

void read_permutation(Instruction &instruction, LaneMove move, const string &value) {
    size_t k = 0;
    instruction.move = move;
    for (const char c : value)
        if (isdigit(c) && k < 8) instruction.permutation[k++] = uint8_t(c - '0');
}

// swizzle(MODE, ...) of ds_swizzle, as its offset's bits.
bool read_swizzle(const string &value, uint32_t &offset) {
    const auto words = split(value.substr(8, value.size() - 9), ',');
    const auto number = [&](size_t k) { return uint32_t(strtoul(words[k].c_str(), nullptr, 0)); };
    if (words[0] == "BITMASK_PERM") {
        uint32_t and_mask = 0, or_mask = 0, xor_mask = 0;
        for (uint32_t k = 0; k < 5; k++) {
            const char c = words[1][1 + k];
            const uint32_t bit = 16u >> k;
            if (c == 'p' || c == 'i') and_mask |= bit;
            if (c == 'i') xor_mask |= bit;
            if (c == '1') or_mask |= bit;
        }
        offset = and_mask | or_mask << 5 | xor_mask << 10;
    } else if (words[0] == "SWAP") {
        offset = 0x1f | number(1) << 10;
    } else if (words[0] == "REVERSE") {
        offset = 0x1f | (number(1) - 1) << 10;
    } else if (words[0] == "BROADCAST") {
        offset = (0x1f & ~(number(1) - 1)) | number(2) << 5;
    } else if (words[0] == "QUAD_PERM") {
        offset = 0x8000;
        for (uint32_t k = 0; k < 4; k++) offset |= number(k + 1) << (2 * k);
    } else {
        return false;
    }
    return true;
}

bool read_sub_dword(Instruction &instruction, const string &name, const string &value) {
    const size_t which = name == "dst_sel" ? 0 : name == "src0_sel" ? 1 : 2;
    instruction.is_sub_dword = true;
    instruction.select[which] = value == "DWORD"                    ? uint8_t(6)
                                : value.compare(0, 5, "BYTE_") == 0 ? uint8_t(value[5] - '0')
                                                                    : uint8_t(4 + value[5] - '0');
    return true;
}

bool read_move(Instruction &instruction, const string &name, const string &value) {
    struct Move {
        const char *name;
        LaneMove move;
    };
    static constexpr Move kMoves[] = {
        {"row_shl", LaneMove::shift_left}, {"row_shr", LaneMove::shift_right},         {"row_ror", LaneMove::rotate},
        {"row_mirror", LaneMove::mirror},  {"row_half_mirror", LaneMove::half_mirror}, {"row_share", LaneMove::share},
        {"row_xmask", LaneMove::xor_mask},
    };
    const auto number = uint32_t(strtoul(value.c_str(), nullptr, 0));
    for (const Move &move : kMoves)
        if (name == move.name) {
            instruction.move = move.move;
            instruction.move_by = number;
            return true;
        }
    if (name == "quad_perm")
        read_permutation(instruction, LaneMove::quad, value);
    else if (name == "dpp8")
        read_permutation(instruction, LaneMove::eight, value);
    else if (name == "row_bcast")
        instruction.move = number == 15 ? LaneMove::broadcast_15 : LaneMove::broadcast_31;
    else if (name == "row_mask")
        instruction.row_mask = uint8_t(number);
    else if (name == "bank_mask")
        instruction.bank_mask = uint8_t(number);
    else if (name == "bound_ctrl")
        instruction.bound_control = true;
    else if (name == "fi")
        instruction.fetch_inactive = number != 0;
    else
        return false;
    return true;
}

bool read_modifier(Instruction &instruction, const string &word) {
    const size_t colon = word.find(':');
    const string name = word.substr(0, colon), value = colon == string::npos ? "" : word.substr(colon + 1);
    const auto number = uint32_t(strtol(value.c_str(), nullptr, 0));
    if (name == "offset" && value.compare(0, 8, "swizzle(") == 0) return read_swizzle(value, instruction.offset);
    if (name == "dst_sel" || name == "src0_sel" || name == "src1_sel") return read_sub_dword(instruction, name, value);
    if (name == "dst_unused")
        instruction.unused = value == "UNUSED_PAD"    ? Instruction::Unused::zeros
                             : value == "UNUSED_SEXT" ? Instruction::Unused::sign
                                                      : Instruction::Unused::preserve;
    else if (name == "offset")
        instruction.offset = number;
    else if (name == "offset0")
        instruction.offsets[0] = number;
    else if (name == "offset1")
        instruction.offsets[1] = number;
    else if (name == "offen")
        instruction.has_offset_register = true;
    else if (name == "idxen")
        instruction.has_index_register = true;
    else if (name == "glc")
        instruction.returns = true;
    else if (name == "th")
        instruction.returns = value.find("RETURN") != string::npos;
    else if (name == "clamp")
        instruction.clamps = true;
    else if (name == "mul")
        instruction.output_scale = value == "2" ? 1 : 2;
    else if (name == "div")
        instruction.output_scale = 3;
    else if (name == "op_sel")
        instruction.op_sel = read_bits(value), instruction.has_op_sel = true;
    else if (name == "op_sel_hi")
        instruction.op_sel_hi = read_bits(value);
    else if (name == "neg_lo")
        instruction.neg_lo = read_bits(value);
    else if (name == "neg_hi")
        instruction.neg_hi = read_bits(value);
    else if (name == "slc" || name == "dlc" || name == "scope" || name == "nv")
        return true; // caches: coherent here
    else
        return read_move(instruction, name, value);
    return true;
}

// A piece between commas: an operand, and after the last the modifiers, by spaces.
string read_operands(Instruction &instruction, const string &text) {
    for (const string &piece : split(text, ',')) {
        bool is_first = true;
        for (const string &word : split(piece, ' ')) {
            Operand operand;
            if (is_first && instruction.operand_count < instruction.operands.size() && read_operand(word, operand))
                instruction.operands[instruction.operand_count++] = operand;
            else if (!read_modifier(instruction, word))
                return word;
            is_first = false;
        }
    }
    return "";
}

bool has(const string &text, const char *part) { return text.find(part) != string::npos; }

// Where the destination is a source as well, it is the third source too.
void add_accumulator(Instruction &instruction) {
    for (const char *part :
         {"v_fmac_", "v_mac_", "v_dual_fmac_", "v_dot2acc_", "v_dual_dot2acc_", "v_dot2c_", "v_dot4c_", "v_pk_fmac_"})
        if (instruction.name.compare(0, strlen(part), part) == 0) {
            instruction.operands[3] = instruction.operands[0];
            instruction.operand_count = 4;
        }
}

// To memory and registers.
bool does_nothing(Kind kind) { return kind == Kind::hint || kind == Kind::wait || kind == Kind::barrier; }

string finish(Instruction &instruction, int generation) {
    instruction.execute = find_instruction(instruction.name);
    if (!instruction.execute) return instruction.name;
    instruction.op_sel_hi =
        has(instruction.name, "fma_mix") && instruction.op_sel_hi == 0xff ? uint8_t(0) : instruction.op_sel_hi;
    add_accumulator(instruction);
    const bool writes_carry = has(instruction.name, "_co_");
    const bool writes_nothing = has(instruction.name, "v_cmpx") && generation >= kRdna1;
    instruction.first_source = writes_carry ? 2 : writes_nothing ? 0 : 1;
    return "";
}

} // namespace

string read_assembly(Instruction &instruction, const string &text, int generation) {
    instruction.text = text;
    const string line = trimmed(text);
    const size_t second = line.find(" :: ");
    const string first = line.substr(0, second);
    const size_t space = first.find(' ');
    instruction.name = current_name(first.substr(0, space), generation);
    classify(instruction);
    if (does_nothing(instruction.kind)) {
        instruction.execute = [](Wave &, const Instruction &) {};
        return "";
    }
    string unknown = space == string::npos ? "" : read_operands(instruction, first.substr(space + 1));
    if (unknown.empty()) unknown = finish(instruction, generation);
    if (unknown.empty() && second != string::npos) {
        instruction.inner = std::make_unique<Instruction>();
        unknown = read_assembly(*instruction.inner, line.substr(second + 4), generation);
    }
    if (unknown.empty() && instruction.is_sub_dword) make_sub_dword(instruction);
    classify(instruction);
    return unknown;
}

} // namespace execute
