// VOP1, VOP2, VOP3: arithmetic of lanes, and what moves between lanes.
#include "instruction_table.hpp"
#include "operands.hpp"

#include <algorithm>
#include <cmath>

namespace execute {
namespace {

using U = uint32_t;
using F = float;

uint32_t reversed(uint32_t value) {
    uint32_t result = 0;
    for (int bit = 0; bit < 32; bit++) result |= (value >> bit & 1) << (31 - bit);
    return result;
}
uint32_t leading_zeros(uint32_t value) { return value ? U(__builtin_clz(value)) : ~0u; }
uint32_t trailing_zeros(uint32_t value) { return value ? U(__builtin_ctz(value)) : ~0u; }
uint32_t low_bits(uint32_t count) { return (1u << (count & 31)) - 1; }
int32_t signed_24(uint32_t value) { return as_signed(value << 8) >> 8; }
uint32_t field(uint32_t value, uint32_t offset, uint32_t width) { return value >> (offset & 31) & low_bits(width); }
uint32_t signed_field(uint32_t value, uint32_t offset, uint32_t width) {
    const uint32_t unused = 32 - (width & 31);
    return width & 31 ? U(as_signed((value >> (offset & 31)) << unused) >> unused) : 0;
}

// A byte of {a, b} by each byte of selector: 0 to 7, a sign of a word, 0 or 255.
uint32_t permuted_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t both = uint64_t(a) << 32 | b;
    uint32_t result = 0;
    for (int k = 0; k < 4; k++) {
        const uint32_t select = selector >> (8 * k) & 255;
        uint32_t byte;
        if (select < 8)
            byte = uint32_t(both >> (8 * select)) & 255;
        else if (select < 12)
            byte = both >> (16 * (select - 8) + 15) & 1 ? 255 : 0;
        else
            byte = select == 12 ? 0 : 255;
        result |= byte << (8 * k);
    }
    return result;
}

float fraction(float value) { return std::min(value - std::floor(value), as_float(0x3f7fffff)); }
float mantissa(float value) {
    int exponent;
    return std::isfinite(value) ? std::frexp(value, &exponent) : value;
}
uint32_t exponent(float value) {
    int result = 0;
    if (std::isfinite(value)) std::frexp(value, &result);
    return U(result);
}
constexpr double kTurn = 6.283185307179586;
float product_unless_zero(float a, float b) { return a == 0 || b == 0 ? 0.f : a * b; }
double fused(float a, float b, float c) { return std::fma(double(a), double(b), double(c)); }
uint32_t half_of(double value) { return double_to_half(value); }
uint32_t integer_median(uint32_t a, uint32_t b, uint32_t c) {
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
int32_t integer_median(int32_t a, int32_t b, int32_t c) {
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

template <auto f>
constexpr Execute signed_bits = on_bits<[](U a, U b) { return U(f(as_signed(a), as_signed(b))); }>;
template <auto f>
constexpr Execute signed_bits_3 = on_bits<[](U a, U b, U c) { return U(f(as_signed(a), as_signed(b), as_signed(c))); }>;
template <auto f>
constexpr Execute from_bits_to_f32 = on_f32<f>;
template <auto f>
constexpr Execute f32_to_bits = convert<f, float, read_f32, write_bits>;
template <auto f>
constexpr Execute f32_to_u16 = convert<f, float, read_f32, write_u16>;
template <auto f>
constexpr Execute f16_to_u16 = convert<f, float, read_f16, write_u16>;
template <auto f>
constexpr Execute u16_to_u16 = convert<f, uint32_t, read_u16, write_u16>;
template <auto f>
constexpr Execute u16_to_bits = convert<f, uint32_t, read_u16, write_bits>;

// Integers to f32, with output modifiers.
template <auto f>
void bits_to_f32(Wave &wave, const Instruction &instruction) {
    Lanes result;
    map_lanes<f, uint32_t, read_bits>(wave, instruction, result,
                                      [&](float value) { return as_bits(scaled(instruction, value)); });
    write_bits(wave, instruction, result);
}

void half_to_single(Wave &wave, const Instruction &instruction) {
    Lanes result;
    map_lanes<[](F a) { return a; }, float, read_f16>(wave, instruction, result,
                                                      [&](float value) { return as_bits(scaled(instruction, value)); });
    write_bits(wave, instruction, result);
}

void single_to_half(Wave &wave, const Instruction &instruction) {
    Lanes result;
    const auto convert = wave.halves_toward_zero ? float_to_half_toward_zero : float_to_half;
    map_lanes<[](F a) { return a; }, float, read_f32>(
        wave, instruction, result, [&](float value) { return uint32_t(convert(scaled(instruction, value))); });
    write_u16(wave, instruction, result);
}

template <auto f, Read read_a, Read read_b, Write write>
void mixed(Wave &wave, const Instruction &instruction) {
    Lanes buffers[2], result;
    const uint32_t *a = read_a(wave, instruction, 0, buffers[0]), *b = read_b(wave, instruction, 1, buffers[1]);
    for_all_lanes(wave, [&](int lane) { result[lane] = f(a[lane], b[lane]); });
    write(wave, instruction, result);
}

void pack_halves(Wave &wave, const Instruction &instruction) {
    Lanes buffers[2], result;
    const uint32_t *a = read_u16(wave, instruction, 0, buffers[0]), *b = read_u16(wave, instruction, 1, buffers[1]);
    const auto sign = [&](int k) { return source(instruction, k).negate ? 0x8000u : 0u; };
    const uint32_t signs[2] = {sign(0), sign(1)};
    for_all_lanes(wave, [&](int lane) { result[lane] = (a[lane] ^ signs[0]) | (b[lane] ^ signs[1]) << 16; });
    write_bits(wave, instruction, result);
}

// Lanes below this one among 32 bits of a mask: of the lower or the upper half.
template <bool upper>
void count_lanes_below(Wave &wave, const Instruction &instruction) {
    Lanes buffers[2], result;
    const uint32_t *mask = read_bits(wave, instruction, 0, buffers[0]),
                   *sum = read_bits(wave, instruction, 1, buffers[1]);
    for_all_lanes(wave, [&](int lane) {
        const int below = std::clamp(lane - (upper ? 32 : 0), 0, 32);
        const uint32_t bits = below == 32 ? ~0u : low_bits(U(below));
        result[lane] = U(__builtin_popcount(mask[lane] & bits)) + sum[lane];
    });
    write_bits(wave, instruction, result);
}

uint64_t selecting_mask(const Wave &wave, const Instruction &instruction) {
    return instruction.operand_count > 3 ? wave.mask(instruction.operands[3].index) : wave.mask(kVcc);
}

template <Read read, Write write>
void select(Wave &wave, const Instruction &instruction) {
    Lanes buffers[2], result;
    const uint32_t *a = read(wave, instruction, 0, buffers[0]), *b = read(wave, instruction, 1, buffers[1]);
    const uint64_t mask = selecting_mask(wave, instruction);
    for (int first = 0; first < wave.lanes; first += 32) {
        const auto bits = U(mask >> first);
        for (int k = 0; k < 32; k++) result[first + k] = (bits >> k & 1) ? b[first + k] : a[first + k];
    }
    write(wave, instruction, result);
}

// result, carry out = a op b op carry in; the carry is bit 32 of the wide result.
template <auto f, bool takes_carry>
void with_carry(Wave &wave, const Instruction &instruction) {
    Lanes buffers[2], result;
    const uint32_t *a = read_bits(wave, instruction, 0, buffers[0]), *b = read_bits(wave, instruction, 1, buffers[1]);
    const uint64_t in = !takes_carry                    ? 0
                        : instruction.operand_count > 4 ? wave.mask(instruction.operands[4].index)
                                                        : wave.mask(kVcc);
    uint64_t out = 0;
    const uint64_t exec = wave.exec();
    for (int lane = 0; lane < wave.lanes; lane++) {
        const uint64_t wide = f(uint64_t(a[lane]), uint64_t(b[lane]), in >> lane & 1);
        result[lane] = uint32_t(wide);
        out |= (wide >> 32 & 1) << lane;
    }
    write_bits(wave, instruction, result);
    wave.set_mask(instruction.operands[1].index, out & exec);
}

void swap(Wave &wave, const Instruction &instruction) {
    const int a = instruction.operands[0].index, b = instruction.operands[1].index;
    for_each_lane(wave, [&](int lane) { std::swap(wave.vectors[a][lane], wave.vectors[b][lane]); });
}

void read_first_lane(Wave &wave, const Instruction &instruction) {
    const uint64_t exec = wave.exec();
    const Operand &from = instruction.operands[1];
    const int lane = exec ? __builtin_ctzll(exec) : 0;
    write_scalar(wave, instruction.operands[0],
                 from.source == Source::vector ? wave.vectors[from.index][lane] : read_scalar(wave, from));
}

void read_lane(Wave &wave, const Instruction &instruction) {
    const uint32_t lane = read_scalar(wave, instruction.operands[2]) & U(wave.lanes - 1);
    write_scalar(wave, instruction.operands[0], wave.vectors[instruction.operands[1].index][lane]);
}

void write_lane(Wave &wave, const Instruction &instruction) {
    const uint32_t lane = read_scalar(wave, instruction.operands[2]) & U(wave.lanes - 1);
    wave.vectors[instruction.operands[0].index][lane] = read_scalar(wave, instruction.operands[1]);
}

// op_sel's bit 0 fetches lanes that are off, its bit 1 writes 0 where it may not fetch.
template <int row_change>
void permute_row(Wave &wave, const Instruction &instruction) {
    const uint64_t selectors =
        uint64_t(read_scalar(wave, instruction.operands[3])) << 32 | read_scalar(wave, instruction.operands[2]);
    const uint64_t exec = wave.exec();
    const uint32_t *values = wave.vectors[instruction.operands[1].index];
    Lanes result;
    uint64_t written = 0;
    for (int lane = 0; lane < wave.lanes; lane++) {
        const int from = ((lane & ~15) ^ row_change) + int(selectors >> (4 * (lane & 15)) & 15);
        const bool is_valid = (instruction.op_sel & 1) || (exec >> from & 1);
        result[lane] = is_valid ? values[from] : 0;
        if (is_valid || (instruction.op_sel & 2)) written |= 1ull << lane;
    }
    for_each_lane(wave, [&](int lane) {
        if (written >> lane & 1) wave.vectors[instruction.operands[0].index][lane] = result[lane];
    });
}

void swap_halves_of_wave(Wave &wave, const Instruction &instruction) {
    Lanes result;
    for (int lane = 0; lane < wave.lanes; lane++)
        result[lane] = wave.vectors[instruction.operands[1].index][wave.lanes == 64 ? lane ^ 32 : lane];
    write_bits(wave, instruction, result);
}

template <auto f>
void on_pairs(Wave &wave, const Instruction &instruction) { // f(wave, instruction, lane)
    uint64_t result[kMostLanes] = {};
    for_each_lane(wave, [&](int lane) { result[lane] = f(wave, instruction, lane); });
    write_pair(wave, instruction, result);
}
uint32_t word(Wave &wave, const Instruction &instruction, int k, int lane) {
    const Operand &operand = source(instruction, k);
    return operand.source == Source::vector ? wave.vectors[operand.index][lane] : read_scalar(wave, operand);
}
using W = Wave;
using I = Instruction;

template <auto f>
constexpr Execute on_f64 = on_pairs<[](W &w, const I &i, int l) { return as_bits(f(w, i, l)); }>;

void pack_byte(Wave &wave, const Instruction &instruction) {
    Lanes buffers[3], result;
    const uint32_t *value = read_f32(wave, instruction, 0, buffers[0]),
                   *which = read_bits(wave, instruction, 1, buffers[1]),
                   *rest = read_bits(wave, instruction, 2, buffers[2]);
    for (int lane = 0; lane < wave.lanes; lane++) {
        const uint32_t shift = 8 * (which[lane] & 3);
        const uint32_t byte = std::min(float_to_unsigned(as_float(value[lane])), 255u);
        result[lane] = (rest[lane] & ~(255u << shift)) | byte << shift;
    }
    write_bits(wave, instruction, result);
}

constexpr Execute kFusedF32 = on_f32<[](F a, F b, F c) { return std::fma(a, b, c); }>;
constexpr Execute kUnfusedF32 = on_f32<[](F a, F b, F c) { return a * b + c; }>;
constexpr Execute kFusedF16 = on_f16<[](F a, F b, F c) { return fused(a, b, c); }>;

constexpr Entry kEntries[] = {
    {"v_mov_b32", on_bits<[](U a) { return a; }>},
    {"v_not_b32", on_bits<[](U a) { return ~a; }>},
    {"v_bfrev_b32", on_bits<[](U a) { return reversed(a); }>},
    {"v_ctz_i32_b32", on_bits<[](U a) { return trailing_zeros(a); }>},
    {"v_ffbl_b32", on_bits<[](U a) { return trailing_zeros(a); }>},
    {"v_clz_i32_u32", on_bits<[](U a) { return leading_zeros(a); }>},
    {"v_ffbh_u32", on_bits<[](U a) { return leading_zeros(a); }>},
    {"v_cls_i32", on_bits<[](U a) { return leading_zeros(a >> 31 ? ~a : a); }>},
    {"v_ffbh_i32", on_bits<[](U a) { return leading_zeros(a >> 31 ? ~a : a); }>},
    {"v_add_nc_u32", on_bits<[](U a, U b) { return a + b; }>},
    {"v_sub_nc_u32", on_bits<[](U a, U b) { return a - b; }>},
    {"v_subrev_nc_u32", on_bits<[](U a, U b) { return b - a; }>},
    {"v_add_nc_i32", on_bits<[](U a, U b) { return a + b; }>},
    {"v_sub_nc_i32", on_bits<[](U a, U b) { return a - b; }>},
    {"v_and_b32", on_bits<[](U a, U b) { return a & b; }>},
    {"v_or_b32", on_bits<[](U a, U b) { return a | b; }>},
    {"v_xor_b32", on_bits<[](U a, U b) { return a ^ b; }>},
    {"v_xnor_b32", on_bits<[](U a, U b) { return ~(a ^ b); }>},
    {"v_lshlrev_b32", on_bits<[](U a, U b) { return b << (a & 31); }>},
    {"v_lshrrev_b32", on_bits<[](U a, U b) { return b >> (a & 31); }>},
    {"v_ashrrev_i32", on_bits<[](U a, U b) { return U(as_signed(b) >> (a & 31)); }>},
    {"v_min_u32", on_bits<[](U a, U b) { return std::min(a, b); }>},
    {"v_max_u32", on_bits<[](U a, U b) { return std::max(a, b); }>},
    {"v_min_i32", signed_bits<[](int a, int b) { return std::min(a, b); }>},
    {"v_max_i32", signed_bits<[](int a, int b) { return std::max(a, b); }>},
    {"v_mul_lo_u32", on_bits<[](U a, U b) { return a * b; }>},
    {"v_mul_hi_u32", on_bits<[](U a, U b) { return U(uint64_t(a) * b >> 32); }>},
    {"v_mul_hi_i32", signed_bits<[](int a, int b) { return int64_t(a) * b >> 32; }>},
    {"v_mul_u32_u24", on_bits<[](U a, U b) { return (a & 0xffffff) * (b & 0xffffff); }>},
    {"v_mul_i32_i24", on_bits<[](U a, U b) { return U(int64_t(signed_24(a)) * signed_24(b)); }>},
    {"v_mul_hi_u32_u24", on_bits<[](U a, U b) { return U(uint64_t(a & 0xffffff) * (b & 0xffffff) >> 32); }>},
    {"v_mad_u32_u24", on_bits<[](U a, U b, U c) { return (a & 0xffffff) * (b & 0xffffff) + c; }>},
    {"v_mad_i32_i24", on_bits<[](U a, U b, U c) { return U(int64_t(signed_24(a)) * signed_24(b)) + c; }>},
    {"v_mad_u32_u16", on_bits<[](U a, U b, U c) { return (a & 0xffff) * (b & 0xffff) + c; }>},
    {"v_add3_u32", on_bits<[](U a, U b, U c) { return a + b + c; }>},
    {"v_lshl_add_u32", on_bits<[](U a, U b, U c) { return (a << (b & 31)) + c; }>},
    {"v_add_lshl_u32", on_bits<[](U a, U b, U c) { return (a + b) << (c & 31); }>},
    {"v_xad_u32", on_bits<[](U a, U b, U c) { return (a ^ b) + c; }>},
    {"v_lshl_or_b32", on_bits<[](U a, U b, U c) { return (a << (b & 31)) | c; }>},
    {"v_and_or_b32", on_bits<[](U a, U b, U c) { return (a & b) | c; }>},
    {"v_or3_b32", on_bits<[](U a, U b, U c) { return a | b | c; }>},
    {"v_xor3_b32", on_bits<[](U a, U b, U c) { return a ^ b ^ c; }>},
    {"v_bfi_b32", on_bits<[](U a, U b, U c) { return (a & b) | (~a & c); }>},
    {"v_bfe_u32", on_bits<field>},
    {"v_bfe_i32", on_bits<signed_field>},
    {"v_bfm_b32", on_bits<[](U a, U b) { return low_bits(a) << (b & 31); }>},
    {"v_alignbit_b32", on_bits<[](U a, U b, U c) { return U((uint64_t(a) << 32 | b) >> (c & 31)); }>},
    {"v_alignbyte_b32", on_bits<[](U a, U b, U c) { return U((uint64_t(a) << 32 | b) >> (8 * (c & 3))); }>},
    {"v_perm_b32", on_bits<permuted_bytes>},
    {"v_min3_u32", on_bits<[](U a, U b, U c) {
         return std::min({a, b, c});
     }>},
    {"v_max3_u32", on_bits<[](U a, U b, U c) {
         return std::max({a, b, c});
     }>},
    {"v_min3_i32", signed_bits_3<[](int a, int b, int c) {
         return std::min({a, b, c});
     }>},
    {"v_max3_i32", signed_bits_3<[](int a, int b, int c) {
         return std::max({a, b, c});
     }>},
    {"v_med3_u32", on_bits<[](U a, U b, U c) { return integer_median(a, b, c); }>},
    {"v_med3_i32", signed_bits_3<[](int a, int b, int c) { return integer_median(a, b, c); }>},
    {"v_minmax_u32", on_bits<[](U a, U b, U c) { return std::max(std::min(a, b), c); }>},
    {"v_maxmin_u32", on_bits<[](U a, U b, U c) { return std::min(std::max(a, b), c); }>},
    {"v_minmax_i32", signed_bits_3<[](int a, int b, int c) { return std::max(std::min(a, b), c); }>},
    {"v_maxmin_i32", signed_bits_3<[](int a, int b, int c) { return std::min(std::max(a, b), c); }>},
    {"v_sad_u32", on_bits<[](U a, U b, U c) { return (a > b ? a - b : b - a) + c; }>},
    {"v_bcnt_u32_b32", on_bits<[](U a, U b) { return U(__builtin_popcount(a)) + b; }>},
    {"v_mbcnt_lo_u32_b32", count_lanes_below<false>},
    {"v_mbcnt_hi_u32_b32", count_lanes_below<true>},
    {"v_cndmask_b32", select<read_f32, write_bits>},
    {"v_cndmask_b16", select<read_u16, write_u16>},
    {"v_add_co_u32", with_carry<[](uint64_t a, uint64_t b, uint64_t) { return a + b; }, false>},
    {"v_add_co_ci_u32", with_carry<[](uint64_t a, uint64_t b, uint64_t c) { return a + b + c; }, true>},
    {"v_sub_co_u32", with_carry<[](uint64_t a, uint64_t b, uint64_t) { return a - b; }, false>},
    {"v_subrev_co_u32", with_carry<[](uint64_t a, uint64_t b, uint64_t) { return b - a; }, false>},
    {"v_sub_co_ci_u32", with_carry<[](uint64_t a, uint64_t b, uint64_t c) { return a - b - c; }, true>},

    {"v_swap_b32", swap},
    {"v_readfirstlane_b32", read_first_lane},
    {"v_readlane_b32", read_lane},
    {"v_writelane_b32", write_lane},
    {"v_permlane16_b32", permute_row<0>},
    {"v_permlanex16_b32", permute_row<16>},
    {"v_permlane64_b32", swap_halves_of_wave},

    {"v_add_f32", on_f32<[](F a, F b) { return a + b; }>},
    {"v_sub_f32", on_f32<[](F a, F b) { return a - b; }>},
    {"v_subrev_f32", on_f32<[](F a, F b) { return b - a; }>},
    {"v_mul_f32", on_f32<[](F a, F b) { return a * b; }>},
    {"v_max_f32", on_f32<maximum>},
    {"v_min_f32", on_f32<minimum>},
    {"v_mul_legacy_f32", on_f32<product_unless_zero>},
    {"v_mul_dx9_zero_f32", on_f32<product_unless_zero>},
    {"v_fma_f32", kFusedF32},
    {"v_fmac_f32", kFusedF32},
    {"v_fmaak_f32", kFusedF32},
    {"v_fmamk_f32", kFusedF32},
    {"v_mad_f32", kUnfusedF32},
    {"v_mac_f32", kUnfusedF32},
    {"v_madak_f32", kUnfusedF32},
    {"v_madmk_f32", kUnfusedF32},
    {"v_max3_f32", on_f32<[](F a, F b, F c) { return maximum(a, maximum(b, c)); }>},
    {"v_min3_f32", on_f32<[](F a, F b, F c) { return minimum(a, minimum(b, c)); }>},
    {"v_med3_f32", on_f32<[](F a, F b, F c) { return median(a, b, c); }>},
    {"v_maxmin_f32", on_f32<[](F a, F b, F c) { return minimum(maximum(a, b), c); }>},
    {"v_minmax_f32", on_f32<[](F a, F b, F c) { return maximum(minimum(a, b), c); }>},
    {"v_exp_f32", on_f32<[](F a) { return std::exp2(a); }>},
    {"v_log_f32", on_f32<[](F a) { return std::log2(a); }>},
    {"v_rcp_f32", on_f32<[](F a) { return 1 / a; }>},
    {"v_rcp_iflag_f32", on_f32<[](F a) { return 1 / a; }>},
    {"v_rsq_f32", on_f32<[](F a) { return 1 / std::sqrt(a); }>},
    {"v_sqrt_f32", on_f32<[](F a) { return std::sqrt(a); }>},
    {"v_sin_f32", on_f32<[](F a) { return F(std::sin(a * kTurn)); }>},
    {"v_cos_f32", on_f32<[](F a) { return F(std::cos(a * kTurn)); }>},
    {"v_floor_f32", on_f32<[](F a) { return std::floor(a); }>},
    {"v_ceil_f32", on_f32<[](F a) { return std::ceil(a); }>},
    {"v_trunc_f32", on_f32<[](F a) { return std::trunc(a); }>},
    {"v_rndne_f32", on_f32<[](F a) { return std::nearbyint(a); }>},
    {"v_fract_f32", on_f32<fraction>},
    {"v_frexp_mant_f32", on_f32<mantissa>},
    {"v_frexp_exp_i32_f32", f32_to_bits<exponent>},
    {"v_ldexp_f32",
     mixed<[](U a, U b) { return as_bits(std::ldexp(as_float(a), as_signed(b))); }, read_f32, read_bits, write_bits>},

    {"v_cvt_f32_u32", bits_to_f32<[](U a) { return F(a); }>},
    {"v_cvt_f32_i32", bits_to_f32<[](U a) { return F(as_signed(a)); }>},
    {"v_cvt_f32_ubyte0", bits_to_f32<[](U a) { return F(a & 255); }>},
    {"v_cvt_f32_ubyte1", bits_to_f32<[](U a) { return F(a >> 8 & 255); }>},
    {"v_cvt_f32_ubyte2", bits_to_f32<[](U a) { return F(a >> 16 & 255); }>},
    {"v_cvt_f32_ubyte3", bits_to_f32<[](U a) { return F(a >> 24); }>},
    {"v_cvt_f32_f16", half_to_single},
    {"v_cvt_f16_f32", single_to_half},
    {"v_cvt_u32_f32", f32_to_bits<float_to_unsigned>},
    {"v_cvt_i32_f32", f32_to_bits<float_to_signed>},
    {"v_cvt_nearest_i32_f32", f32_to_bits<[](F a) { return float_to_signed(F(std::floor(double(a) + 0.5))); }>},
    {"v_cvt_rpi_i32_f32", f32_to_bits<[](F a) { return float_to_signed(F(std::floor(double(a) + 0.5))); }>},
    {"v_cvt_floor_i32_f32", f32_to_bits<[](F a) { return float_to_signed(std::floor(a)); }>},
    {"v_cvt_flr_i32_f32", f32_to_bits<[](F a) { return float_to_signed(std::floor(a)); }>},
    {"v_cvt_i32_i16", u16_to_bits<[](U a) { return U(int16_t(a)); }>},
    {"v_cvt_u32_u16", u16_to_bits<[](U a) { return a; }>},
    {"v_cvt_f16_u16", u16_to_u16<[](U a) { return half_of(a); }>},
    {"v_cvt_f16_i16", u16_to_u16<[](U a) { return half_of(int16_t(a)); }>},
    {"v_cvt_u16_f16", f16_to_u16<[](F a) { return std::min(float_to_unsigned(a), 65535u); }>},
    {"v_cvt_i16_f16",
     f16_to_u16<[](F a) { return U(std::clamp(as_signed(float_to_signed(a)), -32768, 32767)) & 0xffff; }>},
    {"v_cvt_pk_rtz_f16_f32", mixed<[](U a, U b) {
         return U(float_to_half_toward_zero(as_float(a)) | U(float_to_half_toward_zero(as_float(b))) << 16);
     },
                                   read_f32, read_f32, write_bits>},
    {"v_pack_b32_f16", pack_halves},
    {"v_cvt_pk_u16_u32", on_bits<[](U a, U b) { return std::min(a, 65535u) | std::min(b, 65535u) << 16; }>},
    {"v_cvt_pk_i16_i32", signed_bits<[](int a, int b) {
         return (U(std::clamp(a, -32768, 32767)) & 0xffff) | U(std::clamp(b, -32768, 32767)) << 16;
     }>},
    {"v_cvt_pk_u8_f32", pack_byte},

    {"v_mov_b16", on_u16<[](U a) { return a; }>},
    {"v_not_b16", on_u16<[](U a) { return ~a; }>},
    {"v_rcp_f16", on_f16<[](F a) { return 1 / a; }>},
    {"v_sqrt_f16", on_f16<[](F a) { return std::sqrt(a); }>},
    {"v_rsq_f16", on_f16<[](F a) { return 1 / std::sqrt(a); }>},
    {"v_exp_f16", on_f16<[](F a) { return std::exp2(a); }>},
    {"v_log_f16", on_f16<[](F a) { return std::log2(a); }>},
    {"v_floor_f16", on_f16<[](F a) { return std::floor(a); }>},
    {"v_ceil_f16", on_f16<[](F a) { return std::ceil(a); }>},
    {"v_trunc_f16", on_f16<[](F a) { return std::trunc(a); }>},
    {"v_rndne_f16", on_f16<[](F a) { return std::nearbyint(a); }>},
    {"v_fract_f16", on_f16<[](F a) { return std::min(a - std::floor(a), half_to_float(0x3bff)); }>},
    {"v_add_f16", on_f16<[](F a, F b) { return a + b; }>},
    {"v_sub_f16", on_f16<[](F a, F b) { return a - b; }>},
    {"v_subrev_f16", on_f16<[](F a, F b) { return b - a; }>},
    {"v_mul_f16", on_f16<[](F a, F b) { return a * b; }>},
    {"v_max_f16", on_f16<maximum>},
    {"v_min_f16", on_f16<minimum>},
    {"v_fma_f16", kFusedF16},
    {"v_fmac_f16", kFusedF16},
    {"v_fmaak_f16", kFusedF16},
    {"v_fmamk_f16", kFusedF16},
    {"v_mac_f16", on_f16<[](F a, F b, F c) { return half_to_float(float_to_half(a * b)) + c; }>},
    {"v_max3_f16", on_f16<[](F a, F b, F c) { return maximum(a, maximum(b, c)); }>},
    {"v_min3_f16", on_f16<[](F a, F b, F c) { return minimum(a, minimum(b, c)); }>},
    {"v_med3_f16", on_f16<[](F a, F b, F c) { return median(a, b, c); }>},
    {"v_maxmin_f16", on_f16<[](F a, F b, F c) { return minimum(maximum(a, b), c); }>},
    {"v_minmax_f16", on_f16<[](F a, F b, F c) { return maximum(minimum(a, b), c); }>},
    {"v_ldexp_f16", mixed<[](U a, U b) { return U(double_to_half(std::ldexp(double(as_float(a)), int16_t(b)))); },
                          read_f16, read_u16, write_u16>},
    {"v_add_nc_u16", on_u16<[](U a, U b) { return a + b; }>},
    {"v_sub_nc_u16", on_u16<[](U a, U b) { return a - b; }>},
    {"v_add_nc_i16", on_u16<[](U a, U b) { return a + b; }>},
    {"v_mul_lo_u16", on_u16<[](U a, U b) { return a * b; }>},
    {"v_mad_u16", on_u16<[](U a, U b, U c) { return a * b + c; }>},
    {"v_lshlrev_b16", on_u16<[](U a, U b) { return b << (a & 15); }>},
    {"v_lshrrev_b16", on_u16<[](U a, U b) { return b >> (a & 15); }>},
    {"v_ashrrev_i16", on_u16<[](U a, U b) { return U(int16_t(b) >> (a & 15)); }>},
    {"v_and_b16", on_u16<[](U a, U b) { return a & b; }>},
    {"v_or_b16", on_u16<[](U a, U b) { return a | b; }>},
    {"v_xor_b16", on_u16<[](U a, U b) { return a ^ b; }>},
    {"v_min_u16", on_u16<[](U a, U b) { return std::min(a, b); }>},
    {"v_max_u16", on_u16<[](U a, U b) { return std::max(a, b); }>},
    {"v_min_i16", on_u16<[](U a, U b) { return U(std::min(int16_t(a), int16_t(b))); }>},
    {"v_max_i16", on_u16<[](U a, U b) { return U(std::max(int16_t(a), int16_t(b))); }>},

    {"v_mov_b64", on_pairs<[](W &w, const I &i, int l) { return read_pair(w, i, 0, l); }>},
    {"v_lshlrev_b64",
     on_pairs<[](W &w, const I &i, int l) { return read_pair(w, i, 1, l) << (word(w, i, 0, l) & 63); }>},
    {"v_lshrrev_b64",
     on_pairs<[](W &w, const I &i, int l) { return read_pair(w, i, 1, l) >> (word(w, i, 0, l) & 63); }>},
    {"v_ashrrev_i64", on_pairs<[](W &w, const I &i, int l) {
         return uint64_t(int64_t(read_pair(w, i, 1, l)) >> (word(w, i, 0, l) & 63));
     }>},
    {"v_lshl_add_u64", on_pairs<[](W &w, const I &i, int l) {
         return (read_pair(w, i, 0, l) << (word(w, i, 1, l) & 7)) + read_pair(w, i, 2, l);
     }>},
    {"v_mad_u64_u32", on_pairs<[](W &w, const I &i, int l) {
         return uint64_t(word(w, i, 1, l)) * word(w, i, 2, l) + read_pair(w, i, 3, l);
     }>},
    {"v_mad_i64_i32", on_pairs<[](W &w, const I &i, int l) {
         return uint64_t(int64_t(as_signed(word(w, i, 1, l))) * as_signed(word(w, i, 2, l))) + read_pair(w, i, 3, l);
     }>},
    {"v_mad_co_u64_u32", on_pairs<[](W &w, const I &i, int l) {
         return uint64_t(word(w, i, 0, l)) * word(w, i, 1, l) + read_pair(w, i, 2, l);
     }>},
    {"v_add_f64", on_f64<[](W &w, const I &i, int l) { return read_f64(w, i, 0, l) + read_f64(w, i, 1, l); }>},
    {"v_mul_f64", on_f64<[](W &w, const I &i, int l) { return read_f64(w, i, 0, l) * read_f64(w, i, 1, l); }>},
    {"v_fma_f64", on_f64<[](W &w, const I &i, int l) {
         return std::fma(read_f64(w, i, 0, l), read_f64(w, i, 1, l), read_f64(w, i, 2, l));
     }>},
    {"v_max_f64",
     on_f64<[](W &w, const I &i, int l) { return std::fmax(read_f64(w, i, 0, l), read_f64(w, i, 1, l)); }>},
    {"v_min_f64",
     on_f64<[](W &w, const I &i, int l) { return std::fmin(read_f64(w, i, 0, l), read_f64(w, i, 1, l)); }>},
    {"v_rcp_f64", on_f64<[](W &w, const I &i, int l) { return 1 / read_f64(w, i, 0, l); }>},
};

} // namespace

std::span<const Entry> vector_instructions() { return kEntries; }

} // namespace execute
