// VOPC: a bit a lane into a mask, or into exec.
#include "instruction_table.hpp"
#include "operands.hpp"

namespace execute {
namespace {

using U = uint32_t;
using F = float;

template <bool to_exec>
void write_mask(Wave &wave, const Instruction &instruction, uint64_t mask) {
    mask &= wave.exec();
    if (to_exec) wave.set_mask(kExec, mask);
    if (!to_exec || wave.generation < kRdna1) wave.set_mask(instruction.operands[0].index, mask);
}

template <auto f, class Element, Read read, bool to_exec>
void compare(Wave &wave, const Instruction &instruction) {
    Lanes buffers[2];
    const uint32_t *a = read(wave, instruction, 0, buffers[0]), *b = read(wave, instruction, 1, buffers[1]);
    uint64_t mask = 0;
    for_all_lanes(wave, [&](int lane) {
        mask |= uint64_t(bool(f(std::bit_cast<Element>(a[lane]), std::bit_cast<Element>(b[lane])))) << lane;
    });
    write_mask<to_exec>(wave, instruction, mask);
}

template <auto f, bool to_exec>
void compare_pairs(Wave &wave, const Instruction &instruction) {
    uint64_t mask = 0;
    for_each_lane(wave, [&](int lane) {
        mask |= uint64_t(bool(f(read_pair(wave, instruction, 0, lane), read_pair(wave, instruction, 1, lane)))) << lane;
    });
    write_mask<to_exec>(wave, instruction, mask);
}

struct FloatFormat {
    int exponent_bits, fraction_bits;
};

// The bits of classes: signalling and quiet NaN, -infinity, -normal, -denormal, -0, +0, +denormal, +normal, +infinity.
uint32_t class_of(uint32_t bits, FloatFormat format) {
    const uint32_t fraction = bits & ((1u << format.fraction_bits) - 1), most = (1u << format.exponent_bits) - 1;
    const uint32_t exponent = bits >> format.fraction_bits & most;
    const bool is_negative = bits >> (format.exponent_bits + format.fraction_bits) & 1;
    if (exponent == most && fraction) return fraction >> (format.fraction_bits - 1) ? 2 : 1;
    if (exponent == most) return is_negative ? 4 : 512;
    if (exponent) return is_negative ? 8 : 256;
    if (fraction) return is_negative ? 16 : 128;
    return is_negative ? 32 : 64;
}
constexpr auto kIsClass32 = [](U a, U classes) { return class_of(a, {8, 23}) & classes; };
constexpr auto kIsClass16 = [](U a, U classes) { return class_of(a, {5, 10}) & classes; };

constexpr auto kSigned16 = [](U value) { return int16_t(value); };

#define BOTH(name, ...)                                                                                                \
    {"v_cmp_" name, __VA_ARGS__, false > }, { "v_cmpx_" name, __VA_ARGS__, true > }
// Conditions of integers, by the type as which the bits are taken.
#define INTEGERS(type, compare_function, as, ...)                                                                      \
    BOTH(                                                                                                              \
        "lt_" type, compare_function < [](auto a, auto b) { return as(a) < as(b); } __VA_ARGS__),                      \
        BOTH(                                                                                                          \
            "eq_" type, compare_function < [](auto a, auto b) { return as(a) == as(b); } __VA_ARGS__),                 \
        BOTH(                                                                                                          \
            "le_" type, compare_function < [](auto a, auto b) { return as(a) <= as(b); } __VA_ARGS__),                 \
        BOTH(                                                                                                          \
            "gt_" type, compare_function < [](auto a, auto b) { return as(a) > as(b); } __VA_ARGS__),                  \
        BOTH(                                                                                                          \
            "ne_" type, compare_function < [](auto a, auto b) { return as(a) != as(b); } __VA_ARGS__),                 \
        BOTH(                                                                                                          \
            "ge_" type, compare_function < [](auto a, auto b) { return as(a) >= as(b); } __VA_ARGS__)
#define FLOATS(type, read)                                                                                             \
    BOTH(                                                                                                              \
        "lt_" type, compare < [](F a, F b) { return a < b; }, F, read),                                                \
        BOTH(                                                                                                          \
            "eq_" type, compare < [](F a, F b) { return a == b; }, F, read),                                           \
        BOTH(                                                                                                          \
            "le_" type, compare < [](F a, F b) { return a <= b; }, F, read),                                           \
        BOTH(                                                                                                          \
            "gt_" type, compare < [](F a, F b) { return a > b; }, F, read),                                            \
        BOTH(                                                                                                          \
            "lg_" type, compare < [](F a, F b) { return a < b || a > b; }, F, read),                                   \
        BOTH(                                                                                                          \
            "ge_" type, compare < [](F a, F b) { return a >= b; }, F, read),                                           \
        BOTH(                                                                                                          \
            "o_" type, compare < [](F a, F b) { return a == a && b == b; }, F, read),                                  \
        BOTH(                                                                                                          \
            "u_" type, compare < [](F a, F b) { return a != a || b != b; }, F, read),                                  \
        BOTH(                                                                                                          \
            "nge_" type, compare < [](F a, F b) { return !(a >= b); }, F, read),                                       \
        BOTH(                                                                                                          \
            "nlg_" type, compare < [](F a, F b) { return !(a < b || a > b); }, F, read),                               \
        BOTH(                                                                                                          \
            "ngt_" type, compare < [](F a, F b) { return !(a > b); }, F, read),                                        \
        BOTH(                                                                                                          \
            "nle_" type, compare < [](F a, F b) { return !(a <= b); }, F, read),                                       \
        BOTH(                                                                                                          \
            "neq_" type, compare < [](F a, F b) { return !(a == b); }, F, read),                                       \
        BOTH(                                                                                                          \
            "nlt_" type, compare < [](F a, F b) { return !(a < b); }, F, read)

constexpr Entry kEntries[] = {
    INTEGERS("u32", compare, U, , U, read_bits),
    INTEGERS("i32", compare, as_signed, , U, read_bits),
    INTEGERS("u16", compare, U, , U, read_u16),
    INTEGERS("i16", compare, kSigned16, , U, read_u16),
    INTEGERS("u64", compare_pairs, uint64_t),
    INTEGERS("i64", compare_pairs, int64_t),
    FLOATS("f32", read_f32),
    FLOATS("f16", read_f16),
};

// The value keeps its format; the classes are a mask of bits, of 16 beside a half, where it may be the upper half of a register.
template <auto f, Read read, Read read_classes, bool to_exec>
void classify_lanes(Wave &wave, const Instruction &instruction) {
    Lanes buffers[2];
    const uint32_t *value = read(wave, instruction, 0, buffers[0]),
                   *classes = read_classes(wave, instruction, 1, buffers[1]);
    uint64_t mask = 0;
    for_all_lanes(wave, [&](int lane) { mask |= uint64_t(f(value[lane], classes[lane]) != 0) << lane; });
    write_mask<to_exec>(wave, instruction, mask);
}

constexpr Entry kClassEntries[] = {
    BOTH("class_f32", classify_lanes < kIsClass32, read_f32, read_bits),
    BOTH("class_f16", classify_lanes < kIsClass16, read_u16, read_u16),
};

} // namespace

std::span<const Entry> compare_instructions() { return kEntries; }
std::span<const Entry> class_instructions() { return kClassEntries; }

} // namespace execute
