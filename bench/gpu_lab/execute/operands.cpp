#include "operands.hpp"

#include <cmath>

namespace execute {

uint16_t float_to_half_toward_zero(float value) {
    const uint16_t half = float_to_half(value);
    if (value != value || half_to_float(half) == value || std::isinf(value)) return half;
    return std::fabs(half_to_float(half)) > std::fabs(value) ? uint16_t(half - 1) : half;
}

uint32_t read_scalar(const Wave &wave, const Operand &operand) {
    if (operand.source == Source::constant) return uint32_t(operand.constant);
    if (operand.source == Source::none || operand.index == kNull) return 0;
    return operand.index == kScc ? wave.scc : wave.scalars[operand.index];
}

uint64_t read_scalar_pair(const Wave &wave, const Operand &operand) {
    if (operand.source == Source::constant) return operand.constant;
    if (operand.source == Source::none || operand.index == kNull) return 0;
    return operand.index == kScc ? wave.scc : wave.pair(operand.index);
}

void write_scalar(Wave &wave, const Operand &operand, uint32_t value) {
    if (operand.index != kNull) wave.scalars[operand.index] = value;
}

void write_scalar_pair(Wave &wave, const Operand &operand, uint64_t value) {
    if (operand.index != kNull) wave.set_pair(operand.index, value);
}

uint32_t with_sign(uint32_t bits, const Operand &operand) {
    if (operand.absolute) bits &= 0x7fffffff;
    return operand.negate ? bits ^ 0x80000000 : bits;
}

namespace {

int source_lane(const Instruction &instruction, int lane) { // -1: none
    const int row = lane & ~15, in_row = lane & 15, by = int(instruction.move_by);
    switch (instruction.move) {
    case LaneMove::none:
        return lane;
    case LaneMove::quad:
        return (lane & ~3) + instruction.permutation[size_t(lane & 3)];
    case LaneMove::eight:
        return (lane & ~7) + instruction.permutation[size_t(lane & 7)];
    case LaneMove::shift_left:
        return in_row + by < 16 ? lane + by : -1;
    case LaneMove::shift_right:
        return in_row - by >= 0 ? lane - by : -1;
    case LaneMove::rotate:
        return row + ((in_row - by) & 15);
    case LaneMove::mirror:
        return row + 15 - in_row;
    case LaneMove::half_mirror:
        return (lane & ~7) + 7 - (lane & 7);
    case LaneMove::broadcast_15:
        return row ? row - 1 : -1;
    case LaneMove::broadcast_31:
        return lane >= 32 ? 31 : -1;
    case LaneMove::share:
        return row + by;
    case LaneMove::xor_mask:
        return lane ^ by;
    }
    return lane;
}

// Reads through DPP, and sets the lanes that the instruction then writes.
void move_lanes(Wave &wave, const Instruction &instruction, const uint32_t *values, Lanes &result) {
    const uint64_t exec = wave.exec();
    // lanes that may not be read: DPP8 has 0 of them, other moves leave the destination unless bound_ctrl says 0
    const bool writes_zero = instruction.bound_control || instruction.move == LaneMove::eight;
    uint64_t written = 0;
    for (int lane = 0; lane < wave.lanes; lane++) {
        const int from = source_lane(instruction, lane);
        const bool is_valid = from >= 0 && from < wave.lanes && (instruction.fetch_inactive || (exec >> from & 1));
        const bool is_enabled =
            (instruction.row_mask >> (lane / 16) & 1) && (instruction.bank_mask >> (lane / 4 % 4) & 1);
        result[lane] = is_valid ? values[from] : 0;
        if (is_enabled && (is_valid || writes_zero)) written |= 1ull << lane;
    }
    wave.move_lanes = written;
}

void fill(Lanes &lanes, uint32_t value) {
    for (uint32_t &lane : lanes) lane = value;
}

bool is_high(const Instruction &instruction, const Operand &operand, int k) {
    return operand.is_half ? operand.is_high : (instruction.op_sel >> k & 1);
}

// GCN's 16-bit results clear the upper half, on GCN 5 except those of three sources; RDNA's keep it.
bool keeps_other_half(const Wave &wave, const Instruction &instruction) {
    if (wave.generation >= kRdna1) return true;
    return wave.generation == kGcn5 && instruction.operand_count - instruction.first_source >= 3;
}

} // namespace

const uint32_t *read_other_bits(Wave &wave, const Instruction &instruction, int k, Lanes &buffer) {
    const Operand &operand = source(instruction, k);
    if (operand.source != Source::vector) {
        fill(buffer, read_scalar(wave, operand));
        return buffer;
    }
    move_lanes(wave, instruction, wave.vectors[operand.index], buffer);
    return buffer;
}

const uint32_t *read_signed_f32(Wave &wave, const Instruction &instruction, int k, Lanes &buffer) {
    const Operand &operand = source(instruction, k);
    const uint32_t *values = read_bits(wave, instruction, k, buffer);
    for_all_lanes(wave, [&](int lane) { buffer[lane] = with_sign(values[lane], operand); });
    return buffer;
}

const uint32_t *read_u16(Wave &wave, const Instruction &instruction, int k, Lanes &buffer) {
    const Operand &operand = source(instruction, k);
    if (operand.source == Source::constant) {
        const uint32_t bits = operand.is_float ? float_to_half(float(operand.number)) : uint32_t(operand.constant);
        fill(buffer, bits & 0xffff);
        return buffer;
    }
    const uint32_t *values = read_bits(wave, instruction, k, buffer);
    const int shift = is_high(instruction, operand, k) ? 16 : 0;
    for_all_lanes(wave, [&](int lane) { buffer[lane] = values[lane] >> shift & 0xffff; });
    return buffer;
}

const uint32_t *read_f16(Wave &wave, const Instruction &instruction, int k, Lanes &buffer) {
    const Operand &operand = source(instruction, k);
    read_u16(wave, instruction, k, buffer);
    for_all_lanes(wave, [&](int lane) { buffer[lane] = with_sign(as_bits(half_to_float(buffer[lane])), operand); });
    return buffer;
}

uint64_t read_pair(Wave &wave, const Instruction &instruction, int k, int lane) {
    const Operand &operand = source(instruction, k);
    if (operand.source != Source::vector) return read_scalar_pair(wave, operand);
    return uint64_t(wave.vectors[operand.index + 1][lane]) << 32 | wave.vectors[operand.index][lane];
}

double read_f64(Wave &wave, const Instruction &instruction, int k, int lane) {
    const Operand &operand = source(instruction, k);
    double value = as_double(read_pair(wave, instruction, k, lane));
    if (operand.source == Source::constant) {
        const bool is_literal = operand.constant > 0xffff; // the upper half of a double
        value = operand.is_float ? operand.number : as_double(is_literal ? operand.constant << 32 : operand.constant);
    }
    if (operand.absolute) value = std::fabs(value);
    return operand.negate ? -value : value;
}

float scaled(const Instruction &instruction, float value) {
    static constexpr float kFactors[] = {1, 2, 4, 0.5f};
    value *= kFactors[instruction.output_scale];
    if (instruction.clamps) value = value > 0 ? (value < 1 ? value : 1) : 0;
    return value;
}

namespace {

uint64_t written_lanes(const Wave &wave, const Instruction &instruction) {
    return instruction.move == LaneMove::none ? wave.exec() : wave.exec() & wave.move_lanes;
}

} // namespace

void write_bits(Wave &wave, const Instruction &instruction, const uint32_t *values) {
    const uint64_t written = written_lanes(wave, instruction);
    uint32_t *registers = wave.vectors[instruction.operands[0].index];
    if (written == wave.all_lanes()) {
        memcpy(registers, values, size_t(wave.lanes) * sizeof *values);
        return;
    }
    for (int first = 0; first < wave.lanes; first += 32) {
        const auto lanes = uint32_t(written >> first);
        for (int lane = 0; lane < 32; lane++)
            registers[first + lane] = (lanes >> lane & 1) ? values[first + lane] : registers[first + lane];
    }
}

void write_u16(Wave &wave, const Instruction &instruction, const uint32_t *values) {
    const Operand &operand = instruction.operands[0];
    const int sources = instruction.operand_count - instruction.first_source;
    const bool high = operand.is_half ? operand.is_high : instruction.has_op_sel && (instruction.op_sel >> sources & 1);
    const uint32_t kept = high ? 0xffffu : keeps_other_half(wave, instruction) ? 0xffff0000u : 0;
    const int shift = high ? 16 : 0;
    const uint32_t *registers = wave.vectors[operand.index];
    Lanes result;
    for_all_lanes(wave, [&](int lane) { result[lane] = (registers[lane] & kept) | (values[lane] & 0xffff) << shift; });
    write_bits(wave, instruction, result);
}

void write_pair(Wave &wave, const Instruction &instruction, const uint64_t *values) {
    const int index = instruction.operands[0].index;
    for_each_lane(wave, [&](int lane) {
        wave.vectors[index][lane] = uint32_t(values[lane]);
        wave.vectors[index + 1][lane] = uint32_t(values[lane] >> 32);
    });
}

} // namespace execute
