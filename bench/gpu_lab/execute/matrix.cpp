// WMMA: D = A B + C of 16 by 16 by 16, by the whole wave.
#include "findings.hpp"
#include "instruction_table.hpp"
#include "operands.hpp"

#include <algorithm>

namespace execute {
namespace {

using Matrix = float[16][16];

// Where an element lies: of A by row and k, of B by k and column.
//   RDNA 3: a lane of the first 16 holds a row of A or a column of B, two elements a register; the other lanes hold copies.
//   RDNA 4: a row lies in 2 lanes, or in 4 of a wave of 64, in pieces of 8 or 4 elements.
// Of C and D an element a register, or of 16 bits: RDNA 3 in the half that op_sel chooses, RDNA 4 two a register.
struct Layout {
    bool is_rdna4, is_wide; // wide: a wave of 64

    int source_elements() const { return is_rdna4 ? (is_wide ? 4 : 8) : 16; }
    int source_lanes() const { return is_rdna4 ? (is_wide ? 64 : 32) : 16; }
    int source_k(int lane, int element) const {
        if (!is_rdna4) return element;
        return is_wide ? lane / 32 * 4 + lane / 16 % 2 * 8 + element : lane / 16 * 8 + element;
    }
    int result_registers() const { return is_wide ? 4 : 8; }
    int result_row(int lane, int element) const {
        if (is_rdna4) return source_k(lane, element);
        return is_wide ? 4 * element + lane / 16 : 2 * element + lane / 16;
    }
};

template <bool is_bfloat>
float to_float(uint32_t bits) {
    return is_bfloat ? bfloat_to_float(bits) : half_to_float(bits & 0xffff);
}

uint32_t half_of(uint32_t bits, bool high) { return high ? bits >> 16 : bits & 0xffff; }

void check_copies(const Wave &wave, const Instruction &instruction, int registers) {
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < registers; r++) {
            const uint32_t *values = wave.vectors[instruction.operands[size_t(1 + k)].index + r];
            for (int lane = 16; lane < wave.lanes; lane += 16) {
                const auto other = std::mismatch(values, values + 16, values + lane).second;
                if (other == values + lane + 16) continue;
                find(wave, instruction, "a matrix's lane is no copy of the first 16 lanes, lane",
                     uint64_t(other - values));
                return;
            }
        }
}

template <bool is_bfloat>
void load_source(const Wave &wave, const Instruction &instruction, int k, Layout layout, Matrix &rows) {
    const int first = instruction.operands[size_t(1 + k)].index;
    for (int element = 0; element < layout.source_elements(); element++) {
        const bool high = element & 1;
        const uint32_t sign = (high ? instruction.neg_hi : instruction.neg_lo) >> k & 1 ? 0x8000 : 0;
        const uint32_t *values = wave.vectors[first + element / 2];
        const int shift = high ? 16 : 0;
        for (int lane = 0; lane < layout.source_lanes(); lane++)
            rows[lane % 16][layout.source_k(lane, element)] =
                to_float<is_bfloat>((values[lane] >> shift & 0xffff) ^ sign);
    }
}

template <bool is_bfloat, bool is_short>
float load_sum(const Wave &wave, const Instruction &instruction, Layout layout, int element, int lane) {
    const Operand &operand = instruction.operands[3];
    float value;
    if (operand.source != Source::vector) {
        const uint32_t bits = read_scalar(wave, operand);
        value = operand.is_float ? float(operand.number) : is_short ? to_float<is_bfloat>(bits) : as_float(bits);
    } else if (is_short) {
        const uint32_t bits = wave.vectors[operand.index + (layout.is_rdna4 ? element / 2 : element)][lane];
        value = to_float<is_bfloat>(half_of(bits, layout.is_rdna4 ? element & 1 : instruction.op_sel >> 2 & 1));
    } else {
        value = as_float(wave.vectors[operand.index + element][lane]);
    }
    if (instruction.neg_hi >> 2 & 1 && operand.source == Source::vector) value = value < 0 ? -value : value;
    return instruction.neg_lo >> 2 & 1 ? -value : value;
}

template <bool is_bfloat, bool is_short>
void store_result(Wave &wave, const Instruction &instruction, Layout layout, int element, int lane, float value) {
    const int first = instruction.operands[0].index;
    if (!is_short) {
        wave.vectors[first + element][lane] = as_bits(value);
        return;
    }
    const uint32_t bits = is_bfloat ? float_to_bfloat(value) : float_to_half(value);
    uint32_t &target = wave.vectors[first + (layout.is_rdna4 ? element / 2 : element)][lane];
    const bool high = layout.is_rdna4 ? element & 1 : instruction.op_sel >> 2 & 1;
    target = high ? (target & 0xffff) | bits << 16 : (target & 0xffff0000) | bits;
}

template <bool is_bfloat, bool is_short>
void multiply(Wave &wave, const Instruction &instruction) {
    const Layout layout{wave.generation >= kRdna4, wave.lanes == 64};
    if (wave.exec() != wave.all_lanes()) find(wave, instruction, "a matrix product with lanes off, exec", wave.exec());
    if (!layout.is_rdna4) check_copies(wave, instruction, 8);
    Matrix a, b, result;
    load_source<is_bfloat>(wave, instruction, 0, layout, a);
    load_source<is_bfloat>(wave, instruction, 1, layout, b); // by columns
    const auto for_each_element = [&](auto function) {
        for (int element = 0; element < layout.result_registers(); element++)
            for (int lane = 0; lane < wave.lanes; lane++)
                function(element, lane, layout.result_row(lane, element), lane % 16);
    };
    for_each_element([&](int element, int lane, int row, int column) {
        result[row][column] = load_sum<is_bfloat, is_short>(wave, instruction, layout, element, lane);
    });
    float by_k[16][16];
    for (int k = 0; k < 16; k++)
        for (int column = 0; column < 16; column++) by_k[k][column] = b[column][k];
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 16; column++) result[row][column] += a[row][k] * by_k[k][column];
    for_each_element([&](int element, int lane, int row, int column) {
        store_result<is_bfloat, is_short>(wave, instruction, layout, element, lane, result[row][column]);
    });
}

// A byte of a row of A or a column of B; neg_lo says whether it has a sign.
int32_t byte_of(const Wave &wave, const Instruction &instruction, int k, int lane, int element) {
    const int first = instruction.operands[size_t(1 + k)].index;
    const auto byte = uint8_t(wave.vectors[first + element / 4][lane] >> (8 * (element % 4)));
    return instruction.neg_lo >> k & 1 ? int32_t(int8_t(byte)) : int32_t(byte);
}

// Sums of 32 bits wrap, or saturate by clamp.
void multiply_bytes(Wave &wave, const Instruction &instruction) {
    const Layout layout{wave.generation >= kRdna4, wave.lanes == 64};
    if (wave.exec() != wave.all_lanes()) find(wave, instruction, "a matrix product with lanes off, exec", wave.exec());
    if (!layout.is_rdna4) check_copies(wave, instruction, 4);
    int32_t a[16][16], b[16][16]; // b by columns
    for (int lane = 0; lane < layout.source_lanes(); lane++)
        for (int element = 0; element < layout.source_elements(); element++) {
            a[lane % 16][layout.source_k(lane, element)] = byte_of(wave, instruction, 0, lane, element);
            b[lane % 16][layout.source_k(lane, element)] = byte_of(wave, instruction, 1, lane, element);
        }
    const Operand &sums = instruction.operands[3];
    const int target = instruction.operands[0].index;
    for (int element = 0; element < layout.result_registers(); element++)
        for (int lane = 0; lane < wave.lanes; lane++) {
            const int row = layout.result_row(lane, element);
            int64_t sum = as_signed(sums.source == Source::vector ? wave.vectors[sums.index + element][lane]
                                                                  : read_scalar(wave, sums));
            for (int k = 0; k < 16; k++) sum += int64_t(a[row][k]) * b[lane % 16][k];
            if (instruction.clamps) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
            wave.vectors[target + element][lane] = uint32_t(sum);
        }
}

constexpr Entry kEntries[] = {
    {"v_wmma_i32_16x16x16_iu8", multiply_bytes},         {"v_wmma_f32_16x16x16_f16", multiply<false, false>},
    {"v_wmma_f32_16x16x16_bf16", multiply<true, false>}, {"v_wmma_f16_16x16x16_f16", multiply<false, true>},
    {"v_wmma_bf16_16x16x16_bf16", multiply<true, true>},
};

} // namespace

std::span<const Entry> matrix_instructions() { return kEntries; }

} // namespace execute
