// VOP3P without matrices: pairs of halves, dot products, and fused products of mixed formats.
#include "instruction_table.hpp"
#include "operands.hpp"

#include <algorithm>
#include <cmath>

namespace execute {
namespace {

using U = uint32_t;
using F = float;

// A DPP move reads source 0 from other lanes: into a temporary register.
void move_first_source(Wave &wave, const Instruction &instruction) {
    if (instruction.move != LaneMove::none) read_bits(wave, instruction, 0, wave.vectors[kTemporaryRegisters]);
}

uint32_t vector_value(const Wave &wave, const Instruction &instruction, int k, int lane) {
    const bool is_moved = k == 0 && instruction.move != LaneMove::none;
    return wave.vectors[is_moved ? kTemporaryRegisters : source(instruction, k).index][lane];
}

// The 16 bits that op_sel chooses of source k for the low or the high result.
uint32_t half_bits(Wave &wave, const Instruction &instruction, int k, int lane, bool high) {
    const Operand &operand = source(instruction, k);
    uint32_t bits;
    if (operand.source == Source::vector)
        bits = vector_value(wave, instruction, k, lane);
    else if (operand.is_float)
        bits = float_to_half(F(operand.number)); // the upper half of a float is 0
    else
        bits = read_scalar(wave, operand);
    const bool takes_high = (high ? instruction.op_sel_hi : instruction.op_sel) >> k & 1;
    return takes_high ? bits >> 16 : bits & 0xffff;
}

float half_value(Wave &wave, const Instruction &instruction, int k, int lane, bool high) {
    const float value = half_to_float(half_bits(wave, instruction, k, lane, high));
    return (high ? instruction.neg_hi : instruction.neg_lo) >> k & 1 ? -value : value;
}

template <class Half>
void write_halves(Wave &wave, const Instruction &instruction, Half half) { // half(lane, high)
    Lanes result;
    for (int lane = 0; lane < wave.lanes; lane++) result[lane] = half(lane, false) | half(lane, true) << 16;
    write_bits(wave, instruction, result);
}

template <auto f>
void on_f16_pairs(Wave &wave, const Instruction &instruction) {
    wave.require_nearest();
    move_first_source(wave, instruction);
    constexpr int count = sources<f, float>();
    write_halves(wave, instruction, [&](int lane, bool high) {
        float values[3] = {};
        for (int k = 0; k < count; k++) values[k] = half_value(wave, instruction, k, lane, high);
        const auto result = apply<f, float>(values[0], values[1], values[2]);
        return instruction.clamps ? U(float_to_half(scaled(instruction, F(result))))
                                  : U(double_to_half(double(result)));
    });
}

template <auto f>
void on_u16_pairs(Wave &wave, const Instruction &instruction) {
    move_first_source(wave, instruction);
    constexpr int count = sources<f, uint32_t>();
    write_halves(wave, instruction, [&](int lane, bool high) {
        uint32_t values[3] = {};
        for (int k = 0; k < count; k++) values[k] = half_bits(wave, instruction, k, lane, high);
        return U(apply<f, uint32_t>(values[0], values[1], values[2])) & 0xffff;
    });
}

// A source of v_fma_mix: f32, or by op_sel_hi the half that op_sel chooses.
float mixed_value(Wave &wave, const Instruction &instruction, int k, int lane) {
    const Operand &operand = source(instruction, k);
    const bool is_half = instruction.op_sel_hi >> k & 1;
    float value;
    if (operand.is_float) {
        value = F(operand.number);
    } else {
        const uint32_t bits =
            operand.source == Source::vector ? vector_value(wave, instruction, k, lane) : read_scalar(wave, operand);
        value = is_half ? half_to_float(instruction.op_sel >> k & 1 ? bits >> 16 : bits & 0xffff) : as_float(bits);
    }
    if (operand.absolute) value = std::fabs(value);
    return operand.negate ? -value : value;
}

float mixed_product(Wave &wave, const Instruction &instruction, int lane) {
    return std::fma(mixed_value(wave, instruction, 0, lane), mixed_value(wave, instruction, 1, lane),
                    mixed_value(wave, instruction, 2, lane));
}

void fma_mix(Wave &wave, const Instruction &instruction) {
    Lanes result;
    move_first_source(wave, instruction);
    for (int lane = 0; lane < wave.lanes; lane++)
        result[lane] = as_bits(scaled(instruction, mixed_product(wave, instruction, lane)));
    write_bits(wave, instruction, result);
}

template <bool high>
void fma_mix_half(Wave &wave, const Instruction &instruction) {
    Lanes result;
    move_first_source(wave, instruction);
    const auto convert = wave.halves_toward_zero ? float_to_half_toward_zero : float_to_half;
    const uint32_t *old = wave.vectors[instruction.operands[0].index];
    for (int lane = 0; lane < wave.lanes; lane++) {
        const U half = convert(scaled(instruction, mixed_product(wave, instruction, lane)));
        result[lane] = high ? (old[lane] & 0xffff) | half << 16 : (old[lane] & 0xffff0000) | half;
    }
    write_bits(wave, instruction, result);
}

void dot_of_halves(Wave &wave, const Instruction &instruction) {
    Lanes buffer, result;
    move_first_source(wave, instruction);
    const uint32_t *sums = read_f32(wave, instruction, 2, buffer);
    for (int lane = 0; lane < wave.lanes; lane++) {
        float sum = as_float(sums[lane]);
        if (instruction.neg_lo >> 2 & 1) sum = -sum;
        for (const bool high : {false, true})
            sum = std::fma(half_value(wave, instruction, 0, lane, high), half_value(wave, instruction, 1, lane, high),
                           sum);
        result[lane] = as_bits(scaled(instruction, sum));
    }
    write_bits(wave, instruction, result);
}

enum class Signs { unsigned_bytes, signed_bytes, by_modifier };

template <Signs signs>
void dot_of_bytes(Wave &wave, const Instruction &instruction) {
    Lanes buffers[3], result;
    const uint32_t *a = read_bits(wave, instruction, 0, buffers[0]), *b = read_bits(wave, instruction, 1, buffers[1]),
                   *c = read_bits(wave, instruction, 2, buffers[2]);
    const auto is_signed = [&](int k) {
        return signs == Signs::signed_bytes || (signs == Signs::by_modifier && (instruction.neg_lo >> k & 1));
    };
    const auto byte = [&](uint32_t bits, int k, int which) {
        const uint32_t value = bits >> (8 * which) & 255;
        return is_signed(k) ? int64_t(int8_t(value)) : int64_t(value);
    };
    const bool has_sign = signs != Signs::unsigned_bytes;
    for (int lane = 0; lane < wave.lanes; lane++) {
        int64_t sum = has_sign ? int64_t(as_signed(c[lane])) : int64_t(c[lane]);
        for (int which = 0; which < 4; which++) sum += byte(a[lane], 0, which) * byte(b[lane], 1, which);
        if (instruction.clamps && has_sign) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
        if (instruction.clamps && !has_sign) sum = std::min<int64_t>(sum, UINT32_MAX);
        result[lane] = uint32_t(sum);
    }
    write_bits(wave, instruction, result);
}

constexpr Execute kFusedPairs = on_f16_pairs<[](F a, F b, F c) { return std::fma(double(a), double(b), double(c)); }>;

constexpr Entry kEntries[] = {
    {"v_pk_add_f16", on_f16_pairs<[](F a, F b) { return a + b; }>},
    {"v_pk_mul_f16", on_f16_pairs<[](F a, F b) { return a * b; }>},
    {"v_pk_max_f16", on_f16_pairs<maximum>},
    {"v_pk_min_f16", on_f16_pairs<minimum>},
    {"v_pk_fma_f16", kFusedPairs},
    {"v_pk_fmac_f16", kFusedPairs},
    {"v_pk_add_u16", on_u16_pairs<[](U a, U b) { return a + b; }>},
    {"v_pk_sub_u16", on_u16_pairs<[](U a, U b) { return a - b; }>},
    {"v_pk_add_i16", on_u16_pairs<[](U a, U b) { return a + b; }>},
    {"v_pk_sub_i16", on_u16_pairs<[](U a, U b) { return a - b; }>},
    {"v_pk_mul_lo_u16", on_u16_pairs<[](U a, U b) { return a * b; }>},
    {"v_pk_mad_u16", on_u16_pairs<[](U a, U b, U c) { return a * b + c; }>},
    {"v_pk_mad_i16", on_u16_pairs<[](U a, U b, U c) { return a * b + c; }>},
    {"v_pk_lshlrev_b16", on_u16_pairs<[](U a, U b) { return b << (a & 15); }>},
    {"v_pk_lshrrev_b16", on_u16_pairs<[](U a, U b) { return b >> (a & 15); }>},
    {"v_pk_ashrrev_i16", on_u16_pairs<[](U a, U b) { return U(int16_t(b) >> (a & 15)); }>},
    {"v_pk_max_i16", on_u16_pairs<[](U a, U b) { return U(std::max(int16_t(a), int16_t(b))); }>},
    {"v_pk_min_i16", on_u16_pairs<[](U a, U b) { return U(std::min(int16_t(a), int16_t(b))); }>},
    {"v_pk_max_u16", on_u16_pairs<[](U a, U b) { return std::max(a, b); }>},
    {"v_pk_min_u16", on_u16_pairs<[](U a, U b) { return std::min(a, b); }>},
    {"v_fma_mix_f32", fma_mix},
    {"v_fma_mixlo_f16", fma_mix_half<false>},
    {"v_fma_mixhi_f16", fma_mix_half<true>},
    {"v_dot2_f32_f16", dot_of_halves},
    {"v_dot2acc_f32_f16", dot_of_halves},
    {"v_dot2c_f32_f16", dot_of_halves},
    {"v_dot4_u32_u8", dot_of_bytes<Signs::unsigned_bytes>},
    {"v_dot4_i32_i8", dot_of_bytes<Signs::signed_bytes>},
    {"v_dot4c_i32_i8", dot_of_bytes<Signs::signed_bytes>},
    {"v_dot4_i32_iu8", dot_of_bytes<Signs::by_modifier>},
};

} // namespace

std::span<const Entry> packed_instructions() { return kEntries; }

} // namespace execute
