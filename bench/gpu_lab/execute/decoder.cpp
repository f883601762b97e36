#include "decoder.hpp"

#include "assembly_text.hpp"
#include "findings.hpp"
#include "llvm.hpp"
#include "memory_map.hpp"
#include "settings.hpp"

#include <algorithm>
#include <cstring>

namespace execute {
namespace {

constexpr size_t kTextBytes = 512;
constexpr uint64_t kMostCodeBytes = 4u << 20;

struct Code {
    std::array<uint8_t, 20> bytes{};
    size_t length = 0;
    std::string text;
};

std::string features(int lanes) {
    const int generation = settings().generation;
    if (generation < kRdna1) return "";
    const std::string size = lanes == 64 ? "+wavefrontsize64" : "+wavefrontsize32";
    return generation < kRdna3 ? size : size + ",+real-true16";
}

void *disassembler(int lanes) {
    static const bool initialised = [] {
        LLVMInitializeAMDGPUTargetInfo();
        LLVMInitializeAMDGPUTarget();
        LLVMInitializeAMDGPUTargetMC();
        LLVMInitializeAMDGPUDisassembler();
        return true;
    }();
    static void *contexts[2];
    void *&context = contexts[lanes == 64];
    if (!context && initialised)
        context = LLVMCreateDisasmCPUFeatures("amdgcn-mesa-mesa3d", settings().processor.c_str(),
                                              features(lanes).c_str(), nullptr, 0, nullptr, nullptr);
    if (!context) stop("LLVM has no disassembler for " + settings().processor);
    return context;
}

void disassemble(Code &code, uint64_t address, int lanes) {
    char text[kTextBytes];
    code.length =
        LLVMDisasmInstruction(disassembler(lanes), code.bytes.data(), code.bytes.size(), address, text, sizeof text);
    code.text = code.length ? text : "";
}

// LLVM 21 does not decode GCN's v_cmpx in 64 bits: decoded as v_cmp, whose number differs by a bit.
bool disassemble_gcn_cmpx(Code &code, uint64_t address) {
    constexpr uint32_t kFirstClass = 0x10, kFirstComparison = 0x20, kEnd = 0x100;
    uint32_t word;
    memcpy(&word, code.bytes.data(), sizeof word);
    const uint32_t operation = word >> 16 & 0x3ff;
    if (settings().generation >= kRdna1 || word >> 26 != 0x34 || operation < kFirstClass || operation >= kEnd)
        return false;
    const uint8_t only_cmpx = operation < kFirstComparison ? 0x01 : 0x10;
    if (!(operation & only_cmpx)) return false;
    code.bytes[2] ^= only_cmpx;
    disassemble(code, address, 64);
    code.bytes[2] ^= only_cmpx;
    const size_t at = code.text.find("v_cmp_");
    if (at == std::string::npos) return false;
    code.text.replace(at, 6, "v_cmpx_");
    return true;
}

// LLVM has no name for s[92:107], into which RADV loads.
bool disassemble_wide_scalar_load(Code &code) {
    uint32_t words[2];
    memcpy(words, code.bytes.data(), sizeof words);
    const int generation = settings().generation;
    if (generation < kRdna1 || words[0] >> 26 != 0x3d) return false;
    const bool is_rdna4 = generation >= kRdna4;
    const uint32_t operation = is_rdna4 ? words[0] >> 13 & 0x3f : words[0] >> 18 & 0xff;
    const bool is_buffer = operation >= (is_rdna4 ? 16u : 8u);
    const uint32_t size = operation & (is_rdna4 ? 15 : 7);
    if (size > 4) return false;
    const uint32_t destination = words[0] >> 6 & 0x7f, base = (words[0] & 0x3f) * 2, offset_register = words[1] >> 25;
    const int32_t offset = is_rdna4 ? int32_t(words[1] << 8) >> 8 : int32_t(words[1] << 11) >> 11;
    const std::string offset_name = offset_register < kVcc ? "s" + std::to_string(offset_register) : "null";
    const auto range = [](uint32_t first, uint32_t count) {
        return "s[" + std::to_string(first) + ":" + std::to_string(first + count - 1) + "]";
    };
    code.text = std::string("\ts_") + (is_buffer ? "buffer_" : "") + "load_b" + std::to_string(32u << size) + " " +
                range(destination, 1u << size) + ", " + range(base, is_buffer ? 4 : 2) + ", " + offset_name +
                " offset:" + std::to_string(offset);
    code.length = 8;
    return true;
}

Code read_code(uint64_t address, int lanes) {
    Code code;
    size_t bytes = code.bytes.size();
    while (bytes && !memory().at(address, bytes)) bytes -= 4;
    if (!bytes) stop("code runs on outside of memory");
    memcpy(code.bytes.data(), memory().at(address, bytes), bytes);
    disassemble(code, address, lanes);
    if (code.length || disassemble_gcn_cmpx(code, address) || disassemble_wide_scalar_load(code)) return code;
    char line[80];
    uint32_t words[2];
    memcpy(words, code.bytes.data(), sizeof words);
    snprintf(line, sizeof line, "LLVM does not know the instruction %08x %08x of %s", words[0], words[1],
             settings().processor.c_str());
    stop(line);
}

// LLVM prints the low half of a literal of f32. The second word has nine bits a source, of which 255 means the literal.
void set_mixed_literal(Instruction &instruction) {
    if (instruction.name.find("fma_mix") == std::string::npos || instruction.length != 12) return;
    uint32_t sources, literal;
    memcpy(&sources, instruction.code.data() + 4, sizeof sources);
    memcpy(&literal, instruction.code.data() + 8, sizeof literal);
    for (size_t k = 0; k < 3; k++) {
        if ((sources >> (9 * k) & 0x1ff) != 255) continue;
        Operand &operand = instruction.operands[1 + k];
        operand.is_float = false;
        operand.constant = literal;
    }
}

// What the check of waits asks of each instruction.
void note_registers(Instruction &instruction) {
    instruction.reads_other_lanes = instruction.move != LaneMove::none || instruction.kind == Kind::matrix ||
                                    instruction.kind == Kind::lanes ||
                                    instruction.name.find("lane") != std::string::npos;
    for (const Instruction *half = &instruction; half; half = half->kind == Kind::dual ? half->inner.get() : nullptr)
        for (size_t k = 0; k < half->operand_count; k++)
            instruction.registers.add(half->operands[k].source, half->operands[k].index, half->operands[k].count);
}

std::map<std::pair<uint64_t, int>, std::unique_ptr<Program>> programs;

} // namespace

Program::Program(uint64_t base, int lanes) : base_(base), lanes_(lanes) {
    static uint64_t number = 0;
    number_ = ++number;
}

void Program::remove_if_asked(Instruction &instruction) {
    const bool is_wait = instruction.kind == Kind::wait;
    if (!instruction.is_barrier && !is_wait) return;
    const int64_t number = is_wait ? waits_++ : barriers_++;
    const Removal &asked = settings().remove;
    instruction.is_removed = asked.number == number && asked.is_barrier != is_wait && shader_.starts_with(asked.shader);
}

std::vector<std::string> Program::names() const {
    std::vector<std::string> result;
    for (const auto &instruction : instructions_)
        if (instruction) result.push_back(instruction->name);
    return result;
}

std::vector<Instruction *> Program::barriers_and_waits() const {
    std::vector<Instruction *> result;
    for (const auto &instruction : instructions_)
        if (instruction && (instruction->is_barrier || instruction->kind == Kind::wait))
            result.push_back(instruction.get());
    return result;
}

const Instruction &Program::decode(uint64_t address, size_t index) {
    if (index * 4 >= kMostCodeBytes) stop("a jump leaves the program");
    const Code code = read_code(address, lanes_);
    auto instruction = std::make_unique<Instruction>();
    instruction->address = address;
    instruction->length = uint8_t(code.length);
    instruction->next = address + code.length;
    instruction->code = code.bytes;
    const std::string unknown = read_assembly(*instruction, code.text, settings().generation);
    if (!unknown.empty()) stop("'" + unknown + "' of" + code.text + " is not known on " + settings().processor);
    set_mixed_literal(*instruction);
    remove_if_asked(*instruction);
    note_registers(*instruction);
    if (index >= instructions_.size()) instructions_.resize(index + 256);
    instructions_[index] = std::move(instruction);
    return *instructions_[index];
}

bool Program::matches_memory() const {
    return std::all_of(instructions_.begin(), instructions_.end(), [](const auto &instruction) {
        if (!instruction) return true;
        const uint8_t *code = memory().at(instruction->address, instruction->length);
        return code && memcmp(code, instruction->code.data(), instruction->length) == 0;
    });
}

Program &program(uint64_t base, int lanes) {
    auto &slot = programs[{base, lanes}];
    if (!slot || !slot->matches_memory()) slot = std::make_unique<Program>(base, lanes);
    return *slot;
}

void forget_programs(uint64_t address, uint64_t bytes) {
    address = MemoryMap::canonical(address);
    std::erase_if(programs, [&](const auto &entry) {
        const uint64_t base = MemoryMap::canonical(entry.first.first);
        return base >= address && base < address + bytes;
    });
}

} // namespace execute
