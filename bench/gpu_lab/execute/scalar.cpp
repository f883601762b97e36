// SOP1, SOP2, SOPC, SOPK, SOPP: arithmetic of the wave, and its control flow.
#include "instruction_table.hpp"
#include "operands.hpp"

#include <algorithm>
#include <cmath>

namespace execute {
namespace {

using U = uint32_t;
using L = uint64_t;
using S = int32_t;
using F = float;

uint32_t word(const Wave &wave, const Instruction &instruction, size_t k) {
    return read_scalar(wave, instruction.operands[k]);
}
uint64_t pair(const Wave &wave, const Instruction &instruction, size_t k) {
    return read_scalar_pair(wave, instruction.operands[k]);
}
float number(const Wave &wave, const Instruction &instruction, size_t k) {
    return as_float(with_sign(word(wave, instruction, k), instruction.operands[k]));
}

enum class Scc { keep, nonzero };

template <auto f, Scc scc>
void on_words(Wave &wave, const Instruction &instruction) {
    const U result = U(apply<f, U>(word(wave, instruction, 1), word(wave, instruction, 2), 0u));
    write_scalar(wave, instruction.operands[0], result);
    if (scc == Scc::nonzero) wave.scc = result != 0;
}

// Also with a second source of 32 bits, as shifts and fields have: the upper half of a pair is then not read.
template <auto f, Scc scc>
void on_wide(Wave &wave, const Instruction &instruction) {
    const L result = L(apply<f, L>(pair(wave, instruction, 1), pair(wave, instruction, 2), L(0)));
    write_scalar_pair(wave, instruction.operands[0], result);
    if (scc == Scc::nonzero) wave.scc = result != 0;
}

template <auto f, Scc scc>
void wide_to_word(Wave &wave, const Instruction &instruction) {
    const U result = U(f(pair(wave, instruction, 1)));
    write_scalar(wave, instruction.operands[0], result);
    if (scc == Scc::nonzero) wave.scc = result != 0;
}

template <auto f>
void on_numbers(Wave &wave, const Instruction &instruction) {
    write_scalar(wave, instruction.operands[0],
                 as_bits(F(apply<f, F>(number(wave, instruction, 1), number(wave, instruction, 2), 0.f))));
}

// f(a, b, scc) is 33 bits wide: the carry into scc.
template <auto f>
void with_carry(Wave &wave, const Instruction &instruction) {
    const L wide = f(L(word(wave, instruction, 1)), L(word(wave, instruction, 2)), L(wave.scc));
    wave.scc = wide >> 32 & 1;
    write_scalar(wave, instruction.operands[0], U(wide));
}

// Into scc, whether the sum leaves 32 bits.
template <auto f>
void with_overflow(Wave &wave, const Instruction &instruction) {
    const int64_t wide =
        f(int64_t(as_signed(word(wave, instruction, 1))), int64_t(as_signed(word(wave, instruction, 2))));
    wave.scc = wide != int64_t(as_signed(U(wide)));
    write_scalar(wave, instruction.operands[0], U(wide));
}

void add_constant(Wave &wave, const Instruction &instruction) {
    const int64_t wide = int64_t(as_signed(word(wave, instruction, 0))) + int16_t(word(wave, instruction, 1));
    wave.scc = wide != int64_t(as_signed(U(wide)));
    write_scalar(wave, instruction.operands[0], U(wide));
}

void multiply_constant(Wave &wave, const Instruction &instruction) {
    write_scalar(wave, instruction.operands[0], word(wave, instruction, 0) * U(int16_t(word(wave, instruction, 1))));
}

// The chosen of two, and into scc whether it is the first.
template <auto is_first>
void choose(Wave &wave, const Instruction &instruction) {
    const U a = word(wave, instruction, 1), b = word(wave, instruction, 2);
    wave.scc = is_first(a, b);
    write_scalar(wave, instruction.operands[0], wave.scc ? a : b);
}

template <auto f, bool is_wide>
void on_exec(Wave &wave, const Instruction &instruction) { // old exec is the result
    const L old = is_wide ? wave.pair(kExec) : wave.scalars[kExec];
    const L source = is_wide ? pair(wave, instruction, 1) : word(wave, instruction, 1);
    const L result = is_wide ? f(source, old) : U(f(source, old));
    if (is_wide)
        write_scalar_pair(wave, instruction.operands[0], old), wave.set_pair(kExec, result);
    else
        write_scalar(wave, instruction.operands[0], U(old)), wave.scalars[kExec] = U(result);
    wave.scc = result != 0;
}

template <auto f, bool is_wide>
void through_exec(Wave &wave, const Instruction &instruction) { // new exec is the result
    const L old = is_wide ? wave.pair(kExec) : wave.scalars[kExec];
    const L source = is_wide ? pair(wave, instruction, 1) : word(wave, instruction, 1);
    const L result = is_wide ? f(source, old) : U(f(source, old));
    if (is_wide)
        wave.set_pair(kExec, result), write_scalar_pair(wave, instruction.operands[0], result);
    else
        wave.scalars[kExec] = U(result), write_scalar(wave, instruction.operands[0], U(result));
    wave.scc = result != 0;
}

template <auto f, class Element>
void compare(Wave &wave, const Instruction &instruction) {
    wave.scc = f(Element(word(wave, instruction, 0)), Element(word(wave, instruction, 1)));
}
template <auto f>
void compare_wide(Wave &wave, const Instruction &instruction) {
    wave.scc = f(pair(wave, instruction, 0), pair(wave, instruction, 1));
}
template <auto f>
void compare_numbers(Wave &wave, const Instruction &instruction) {
    wave.scc = f(number(wave, instruction, 0), number(wave, instruction, 1));
}
template <auto f, class Short>
void compare_constant(Wave &wave, const Instruction &instruction) {
    using Element = std::conditional_t<std::is_signed_v<Short>, S, U>;
    wave.scc = f(Element(word(wave, instruction, 0)), Element(Short(word(wave, instruction, 1))));
}

template <auto condition>
void branch_if(Wave &wave, const Instruction &instruction) {
    if (condition(wave)) wave.pc = instruction.target;
}

void select(Wave &wave, const Instruction &instruction) {
    write_scalar(wave, instruction.operands[0], word(wave, instruction, wave.scc ? 1 : 2));
}
void select_wide(Wave &wave, const Instruction &instruction) {
    write_scalar_pair(wave, instruction.operands[0], pair(wave, instruction, wave.scc ? 1 : 2));
}
void move_if(Wave &wave, const Instruction &instruction) {
    if (wave.scc) write_scalar(wave, instruction.operands[0], word(wave, instruction, 1));
}
void move_wide_if(Wave &wave, const Instruction &instruction) {
    if (wave.scc) write_scalar_pair(wave, instruction.operands[0], pair(wave, instruction, 1));
}
void move_constant(Wave &wave, const Instruction &instruction) {
    write_scalar(wave, instruction.operands[0], U(int16_t(word(wave, instruction, 1))));
}
void move_constant_if(Wave &wave, const Instruction &instruction) {
    if (wave.scc) move_constant(wave, instruction);
}

void set_round_mode(Wave &wave, const Instruction &instruction) {
    const U mode = word(wave, instruction, 0) & 15;
    if (mode != 0 && mode != 12)
        stop("s_round_mode " + std::to_string(mode) + ", expected f32 to nearest, f16 to nearest or zero");
    wave.halves_toward_zero = mode == 12;
}

template <bool value>
void set_bit(Wave &wave, const Instruction &instruction) {
    const U bit = 1u << (word(wave, instruction, 1) & 31), old = word(wave, instruction, 0);
    write_scalar(wave, instruction.operands[0], value ? old | bit : old & ~bit);
}
template <bool value>
void set_bit_wide(Wave &wave, const Instruction &instruction) {
    const L bit = 1ull << (word(wave, instruction, 1) & 63), old = pair(wave, instruction, 0);
    write_scalar_pair(wave, instruction.operands[0], value ? old | bit : old & ~bit);
}
template <bool value>
void test_bit(Wave &wave, const Instruction &instruction) {
    wave.scc = (word(wave, instruction, 0) >> (word(wave, instruction, 1) & 31) & 1) == value;
}
template <bool value>
void test_bit_wide(Wave &wave, const Instruction &instruction) {
    wave.scc = (pair(wave, instruction, 0) >> (word(wave, instruction, 1) & 63) & 1) == value;
}

void get_pc(Wave &wave, const Instruction &instruction) {
    write_scalar_pair(wave, instruction.operands[0], instruction.next);
}
void set_pc(Wave &wave, const Instruction &instruction) { wave.pc = pair(wave, instruction, 0); }
void swap_pc(Wave &wave, const Instruction &instruction) {
    const L target = pair(wave, instruction, 1);
    write_scalar_pair(wave, instruction.operands[0], instruction.next);
    wave.pc = target;
}

template <int accumulator>
void fused(Wave &wave, const Instruction &instruction) {
    write_scalar(wave, instruction.operands[0],
                 as_bits(std::fma(number(wave, instruction, 1), number(wave, instruction, 2),
                                  number(wave, instruction, accumulator))));
}

U reversed(U value) {
    U result = 0;
    for (int bit = 0; bit < 32; bit++) result |= (value >> bit & 1) << (31 - bit);
    return result;
}
L doubled_bits(U value) {
    L result = 0;
    for (int bit = 0; bit < 32; bit++)
        if (value >> bit & 1) result |= 3ull << (2 * bit);
    return result;
}
void replicate_bits(Wave &wave, const Instruction &instruction) {
    write_scalar_pair(wave, instruction.operands[0], doubled_bits(word(wave, instruction, 1)));
}

// A field's offset is in the low bits of its description, its width in bits 16 to 22.
U field(U value, U description) {
    const U offset = description & 31, width = description >> 16 & 127;
    return width >= 32 ? value >> offset : value >> offset & ((1u << width) - 1);
}
U signed_field(U value, U description) {
    const U offset = description & 31, width = std::min(description >> 16 & 127, 32 - offset);
    return width == 0 ? 0 : U(as_signed(value << (32 - offset - width)) >> (32 - width));
}
L wide_field(L value, L description) {
    const L offset = description & 63, width = description >> 16 & 127;
    return width >= 64 ? value >> offset : value >> offset & ((1ull << width) - 1);
}
L mask_of(L width, L offset) { return ((1ull << (width & 63)) - 1) << (offset & 63); }

#define LOGIC(name, expression)                                                                                        \
    {"s_" name "_b32", on_words<[](U a, U b) { return expression; }, Scc::nonzero>}, {                                 \
        "s_" name "_b64", on_wide<[](L a, L b) { return expression; }, Scc::nonzero>                                   \
    }
#define SAVE_EXEC(name, expression)                                                                                    \
    {"s_" name "_saveexec_b32", on_exec<[](L a, L exec) { return expression; }, false>}, {                             \
        "s_" name "_saveexec_b64", on_exec<[](L a, L exec) { return expression; }, true>                               \
    }
#define WRITE_EXEC(name, expression)                                                                                   \
    {"s_" name "_wrexec_b32", through_exec<[](L a, L exec) { return expression; }, false>}, {                          \
        "s_" name "_wrexec_b64", through_exec<[](L a, L exec) { return expression; }, true>                            \
    }
#define COMPARE(name, operation)                                                                                       \
    {"s_cmp_" name "_u32", compare<[](U a, U b) { return a operation b; }, U>},                                        \
        {"s_cmp_" name "_i32", compare<[](S a, S b) { return a operation b; }, S>},                                    \
        {"s_cmpk_" name "_u32", compare_constant<[](U a, U b) { return a operation b; }, uint16_t>},                   \
        {"s_cmpk_" name "_i32", compare_constant<[](S a, S b) { return a operation b; }, int16_t>}, {                  \
        "s_cmp_" name "_u64", compare_wide<[](L a, L b) { return a operation b; }>                                     \
    }
#define COMPARE_NUMBERS(name, expression)                                                                              \
    {                                                                                                                  \
        "s_cmp_" name "_f32", compare_numbers<[](F a, F b) { return expression; }>                                     \
    }
#define SHIFT_ADD(name, bits)                                                                                          \
    {                                                                                                                  \
        "s_lshl" name "_add_u32", [](Wave &wave, const Instruction &instruction) {                                     \
            const L wide = (L(word(wave, instruction, 1)) << bits) + word(wave, instruction, 2);                       \
            wave.scc = wide >> 32 != 0;                                                                                \
            write_scalar(wave, instruction.operands[0], U(wide));                                                      \
        }                                                                                                              \
    }

constexpr Entry kEntries[] = {
    {"s_mov_b32", on_words<[](U a) { return a; }, Scc::keep>},
    {"s_mov_b64", on_wide<[](L a) { return a; }, Scc::keep>},
    {"s_movk_i32", move_constant},
    {"s_cmovk_i32", move_constant_if},
    {"s_round_mode", set_round_mode},
    {"s_cmov_b32", move_if},
    {"s_cmov_b64", move_wide_if},
    {"s_not_b32", on_words<[](U a) { return ~a; }, Scc::nonzero>},
    {"s_not_b64", on_wide<[](L a) { return ~a; }, Scc::nonzero>},
    {"s_wqm_b64", on_wide<[](L a) {
         L quads = (a | a >> 1 | a >> 2 | a >> 3) & 0x1111111111111111ull;
         return quads * 15;
     },
                          Scc::nonzero>},
    LOGIC("and", a &b),
    LOGIC("or", a | b),
    LOGIC("xor", a ^ b),
    LOGIC("nand", ~(a &b)),
    LOGIC("nor", ~(a | b)),
    LOGIC("xnor", ~(a ^ b)),
    LOGIC("and_not1", a & ~b),
    LOGIC("or_not1", a | ~b),
    SAVE_EXEC("and", a &exec),
    SAVE_EXEC("or", a | exec),
    SAVE_EXEC("xor", a ^ exec),
    SAVE_EXEC("nand", ~(a &exec)),
    SAVE_EXEC("nor", ~(a | exec)),
    SAVE_EXEC("and_not1", a & ~exec),
    SAVE_EXEC("and_not0", ~a &exec),
    SAVE_EXEC("or_not1", a | ~exec),
    WRITE_EXEC("and_not1", a & ~exec),
    WRITE_EXEC("and_not0", ~a &exec),
    {"s_lshl_b32", on_words<[](U a, U b) { return a << (b & 31); }, Scc::nonzero>},
    {"s_lshr_b32", on_words<[](U a, U b) { return a >> (b & 31); }, Scc::nonzero>},
    {"s_ashr_i32", on_words<[](U a, U b) { return U(as_signed(a) >> (b & 31)); }, Scc::nonzero>},
    {"s_lshl_b64", on_wide<[](L a, L b) { return a << (b & 63); }, Scc::nonzero>},
    {"s_lshr_b64", on_wide<[](L a, L b) { return a >> (b & 63); }, Scc::nonzero>},
    {"s_ashr_i64", on_wide<[](L a, L b) { return L(int64_t(a) >> (b & 63)); }, Scc::nonzero>},
    {"s_add_u32", with_carry<[](L a, L b, L) { return a + b; }>},
    {"s_addc_u32", with_carry<[](L a, L b, L c) { return a + b + c; }>},
    {"s_sub_u32", with_carry<[](L a, L b, L) { return a - b; }>},
    {"s_subb_u32", with_carry<[](L a, L b, L c) { return a - b - c; }>},
    {"s_add_i32", with_overflow<[](int64_t a, int64_t b) { return a + b; }>},
    {"s_sub_i32", with_overflow<[](int64_t a, int64_t b) { return a - b; }>},
    {"s_addk_i32", add_constant},
    {"s_mulk_i32", multiply_constant},
    {"s_mul_i32", on_words<[](U a, U b) { return a * b; }, Scc::keep>},
    {"s_mul_hi_u32", on_words<[](U a, U b) { return U(L(a) * b >> 32); }, Scc::keep>},
    {"s_mul_hi_i32", on_words<[](U a, U b) { return U(int64_t(as_signed(a)) * as_signed(b) >> 32); }, Scc::keep>},
    {"s_mul_u64", on_wide<[](L a, L b) { return a * b; }, Scc::keep>},
    {"s_add_nc_u64", on_wide<[](L a, L b) { return a + b; }, Scc::keep>},
    {"s_add_u64", on_wide<[](L a, L b) { return a + b; }, Scc::keep>},
    {"s_sub_nc_u64", on_wide<[](L a, L b) { return a - b; }, Scc::keep>},
    {"s_sub_u64", on_wide<[](L a, L b) { return a - b; }, Scc::keep>},
    {"s_min_u32", choose<[](U a, U b) { return a < b; }>},
    {"s_max_u32", choose<[](U a, U b) { return a >= b; }>},
    {"s_min_i32", choose<[](U a, U b) { return as_signed(a) < as_signed(b); }>},
    {"s_max_i32", choose<[](U a, U b) { return as_signed(a) >= as_signed(b); }>},
    {"s_bfe_u32", on_words<field, Scc::nonzero>},
    {"s_bfe_i32", on_words<signed_field, Scc::nonzero>},
    {"s_bfe_u64", on_wide<wide_field, Scc::nonzero>},
    {"s_bfm_b32", on_words<[](U a, U b) { return ((1u << (a & 31)) - 1) << (b & 31); }, Scc::keep>},
    {"s_bfm_b64", on_wide<mask_of, Scc::keep>},
    {"s_brev_b32", on_words<reversed, Scc::keep>},
    {"s_ctz_i32_b32", on_words<[](U a) { return a ? U(__builtin_ctz(a)) : ~0u; }, Scc::keep>},
    {"s_clz_i32_u32", on_words<[](U a) { return a ? U(__builtin_clz(a)) : ~0u; }, Scc::keep>},
    {"s_ctz_i32_b64", wide_to_word<[](L a) { return a ? U(__builtin_ctzll(a)) : ~0u; }, Scc::keep>},
    {"s_clz_i32_u64", wide_to_word<[](L a) { return a ? U(__builtin_clzll(a)) : ~0u; }, Scc::keep>},
    {"s_bcnt1_i32_b32", on_words<[](U a) { return U(__builtin_popcount(a)); }, Scc::nonzero>},
    {"s_bcnt1_i32_b64", wide_to_word<[](L a) { return U(__builtin_popcountll(a)); }, Scc::nonzero>},
    {"s_bcnt0_i32_b64", wide_to_word<[](L a) { return 64 - U(__builtin_popcountll(a)); }, Scc::nonzero>},
    {"s_cselect_b32", select},
    {"s_cselect_b64", select_wide},
    {"s_abs_i32", on_words<[](U a) { return a >> 31 ? 0 - a : a; }, Scc::nonzero>},
    {"s_absdiff_i32", on_words<[](U a, U b) { return (a - b) >> 31 ? b - a : a - b; }, Scc::nonzero>},
    {"s_sext_i32_i8", on_words<[](U a) { return U(int8_t(a)); }, Scc::keep>},
    {"s_sext_i32_i16", on_words<[](U a) { return U(int16_t(a)); }, Scc::keep>},
    {"s_pack_ll_b32_b16", on_words<[](U a, U b) { return (a & 0xffff) | b << 16; }, Scc::keep>},
    {"s_pack_lh_b32_b16", on_words<[](U a, U b) { return (a & 0xffff) | (b & 0xffff0000); }, Scc::keep>},
    {"s_pack_hh_b32_b16", on_words<[](U a, U b) { return a >> 16 | (b & 0xffff0000); }, Scc::keep>},
    {"s_pack_hl_b32_b16", on_words<[](U a, U b) { return a >> 16 | b << 16; }, Scc::keep>},
    {"s_bitset0_b32", set_bit<false>},
    {"s_bitset1_b32", set_bit<true>},
    {"s_bitset0_b64", set_bit_wide<false>},
    {"s_bitset1_b64", set_bit_wide<true>},
    {"s_bitcmp0_b32", test_bit<false>},
    {"s_bitcmp1_b32", test_bit<true>},
    {"s_bitcmp0_b64", test_bit_wide<false>},
    {"s_bitcmp1_b64", test_bit_wide<true>},
    {"s_bitreplicate_b64_b32", replicate_bits},
    SHIFT_ADD("1", 1),
    SHIFT_ADD("2", 2),
    SHIFT_ADD("3", 3),
    SHIFT_ADD("4", 4),
    COMPARE("eq", ==),
    COMPARE("lg", !=),
    COMPARE("lt", <),
    COMPARE("le", <=),
    COMPARE("gt", >),
    COMPARE("ge", >=),
    COMPARE_NUMBERS("eq", a == b),
    COMPARE_NUMBERS("lg", a<b || a> b),
    COMPARE_NUMBERS("lt", a < b),
    COMPARE_NUMBERS("le", a <= b),
    COMPARE_NUMBERS("gt", a > b),
    COMPARE_NUMBERS("ge", a >= b),
    COMPARE_NUMBERS("o", a == a && b == b),
    COMPARE_NUMBERS("u", a != a || b != b),
    COMPARE_NUMBERS("neq", !(a == b)),
    COMPARE_NUMBERS("nlg", !(a < b || a > b)),
    COMPARE_NUMBERS("nlt", !(a < b)),
    COMPARE_NUMBERS("nle", !(a <= b)),
    COMPARE_NUMBERS("ngt", !(a > b)),
    COMPARE_NUMBERS("nge", !(a >= b)),
    {"s_add_f32", on_numbers<[](F a, F b) { return a + b; }>},
    {"s_sub_f32", on_numbers<[](F a, F b) { return a - b; }>},
    {"s_mul_f32", on_numbers<[](F a, F b) { return a * b; }>},
    {"s_max_f32", on_numbers<maximum>},
    {"s_min_f32", on_numbers<minimum>},
    {"s_max_num_f32", on_numbers<maximum>},
    {"s_min_num_f32", on_numbers<minimum>},
    {"s_floor_f32", on_numbers<[](F a) { return std::floor(a); }>},
    {"s_ceil_f32", on_numbers<[](F a) { return std::ceil(a); }>},
    {"s_trunc_f32", on_numbers<[](F a) { return std::trunc(a); }>},
    {"s_rndne_f32", on_numbers<[](F a) { return std::nearbyint(a); }>},
    {"v_s_exp_f32", on_numbers<[](F a) { return std::exp2(a); }>},
    {"v_s_log_f32", on_numbers<[](F a) { return std::log2(a); }>},
    {"v_s_rcp_f32", on_numbers<[](F a) { return 1 / a; }>},
    {"v_s_rsq_f32", on_numbers<[](F a) { return 1 / std::sqrt(a); }>},
    {"v_s_sqrt_f32", on_numbers<[](F a) { return std::sqrt(a); }>},
    {"s_fmac_f32", fused<0>},
    {"s_fmaak_f32", fused<3>},
    {"s_fmamk_f32", fused<3>},
    {"s_cvt_f32_u32", on_words<[](U a) { return as_bits(F(a)); }, Scc::keep>},
    {"s_cvt_f32_i32", on_words<[](U a) { return as_bits(F(as_signed(a))); }, Scc::keep>},
    {"s_cvt_u32_f32", on_words<[](U a) { return float_to_unsigned(as_float(a)); }, Scc::keep>},
    {"s_cvt_i32_f32", on_words<[](U a) { return float_to_signed(as_float(a)); }, Scc::keep>},
    {"s_cvt_f32_f16", on_words<[](U a) { return as_bits(half_to_float(a & 0xffff)); }, Scc::keep>},
    {"s_cvt_hi_f32_f16", on_words<[](U a) { return as_bits(half_to_float(a >> 16)); }, Scc::keep>},
    {"s_cvt_f16_f32", on_words<[](U a) { return U(float_to_half(as_float(a))); }, Scc::keep>},
    {"s_branch", branch_if<[](const Wave &) { return true; }>},
    {"s_cbranch_scc0", branch_if<[](const Wave &wave) { return !wave.scc; }>},
    {"s_cbranch_scc1", branch_if<[](const Wave &wave) { return wave.scc != 0; }>},
    {"s_cbranch_execz", branch_if<[](const Wave &wave) { return !wave.exec(); }>},
    {"s_cbranch_execnz", branch_if<[](const Wave &wave) { return wave.exec() != 0; }>},
    {"s_cbranch_vccz", branch_if<[](const Wave &wave) { return !wave.mask(kVcc); }>},
    {"s_cbranch_vccnz", branch_if<[](const Wave &wave) { return wave.mask(kVcc) != 0; }>},
    {"s_getpc_b64", get_pc},
    {"s_setpc_b64", set_pc},
    {"s_swappc_b64", swap_pc},
};

} // namespace

std::span<const Entry> scalar_instructions() { return kEntries; }

} // namespace execute
