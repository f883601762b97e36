// SDWA: an instruction whose sources are bytes or words of registers, and whose result is put into one.
#include "instruction_table.hpp"
#include "operands.hpp"

namespace execute {
namespace {

constexpr int kResult = kTemporaryRegisters + 3;

uint32_t selected(uint32_t bits, uint8_t select, bool is_signed) {
    if (select == 6) return bits;
    if (select < 4) {
        const uint32_t byte = bits >> (8 * select) & 255;
        return is_signed ? uint32_t(int8_t(byte)) : byte;
    }
    const uint32_t half = bits >> (16 * (select - 4)) & 0xffff;
    return is_signed ? uint32_t(int16_t(half)) : half;
}

uint32_t placed(uint32_t value, uint32_t old, const Instruction &instruction) {
    const uint8_t select = instruction.select[0];
    if (select == 6) return value;
    const uint32_t shift = select < 4 ? 8u * select : 16u * (select - 4u);
    const uint32_t mask = (select < 4 ? 255u : 0xffffu) << shift, bits = value << shift & mask;
    if (instruction.unused == Instruction::Unused::preserve) return (old & ~mask) | bits;
    if (instruction.unused == Instruction::Unused::zeros) return bits;
    return selected(value, select < 4 ? 0 : 4, true) << shift;
}

// Constants of instructions that read halves are halves.
bool reads_halves(const Instruction &instruction) {
    const size_t end = instruction.name.find("_sdwa");
    return end != std::string::npos && end >= 4 && instruction.name.compare(end - 4, 4, "_f16") == 0;
}

void read_source(Wave &wave, const Instruction &instruction, int k) {
    const Operand &operand = source(instruction, k);
    Lanes buffer;
    const uint32_t *values = read_bits(wave, instruction, k, buffer);
    if (operand.is_float && reads_halves(instruction))
        for (uint32_t &value : buffer) value = float_to_half(float(operand.number));
    for (int lane = 0; lane < kMostLanes; lane++)
        wave.vectors[kTemporaryRegisters + k][lane] =
            selected(values[lane], instruction.select[size_t(1 + k)], operand.sign_extend);
}

void execute_sub_dword(Wave &wave, const Instruction &instruction) {
    const Instruction &inner = *instruction.inner;
    for (int k = 0; k < 2 && instruction.first_source + k < instruction.operand_count; k++) {
        const Operand &operand = source(instruction, k);
        if (operand.source != Source::vector && instruction.select[size_t(1 + k)] == 6) continue;
        read_source(wave, instruction, k);
    }
    if (instruction.operands[0].source != Source::vector) { // a comparison
        inner.execute(wave, inner);
        return;
    }
    const uint32_t *old = wave.vectors[instruction.operands[0].index];
    memcpy(wave.vectors[kResult], old, sizeof(Lanes));
    inner.execute(wave, inner);
    Lanes result;
    for (int lane = 0; lane < kMostLanes; lane++)
        result[lane] = placed(wave.vectors[kResult][lane], old[lane], instruction);
    write_bits(wave, instruction, result);
}

} // namespace

void make_sub_dword(Instruction &instruction) {
    auto inner = std::make_unique<Instruction>();
    inner->text = instruction.text;
    inner->name = instruction.name;
    inner->address = instruction.address;
    inner->execute = instruction.execute;
    inner->operands = instruction.operands;
    inner->operand_count = instruction.operand_count;
    inner->first_source = instruction.first_source;
    inner->clamps = instruction.clamps;
    inner->output_scale = instruction.output_scale;
    if (inner->operands[0].source == Source::vector) inner->operands[0].index = kResult;
    for (int k = 0; k < 2 && inner->first_source + k < inner->operand_count; k++) {
        Operand &operand = inner->operands[size_t(inner->first_source + k)];
        if (operand.source != Source::vector && instruction.select[size_t(1 + k)] == 6) continue;
        operand.source = Source::vector;
        operand.index = uint16_t(kTemporaryRegisters + k);
        operand.count = 1;
    }
    instruction.inner = std::move(inner);
    instruction.execute = execute_sub_dword;
}

} // namespace execute
