// Operands as vectors of lanes: a function of an element, applied to sources read in their format, then written where exec has
// lanes on. A function's number of arguments is its number of sources.
#pragma once
#include "numbers.hpp"
#include "wave.hpp"

#include <concepts>

namespace execute {

using Lanes = uint32_t[kMostLanes];

uint32_t read_scalar(const Wave &wave, const Operand &operand);
uint64_t read_scalar_pair(const Wave &wave, const Operand &operand);
int64_t scalar_load_offset(const Wave &wave, const Instruction &instruction); // in bytes, from its base
void write_scalar(Wave &wave, const Operand &operand, uint32_t value);
void write_scalar_pair(Wave &wave, const Operand &operand, uint64_t value);
uint32_t with_sign(uint32_t bits, const Operand &operand); // an f32's negation and absolute value

// Source k of an instruction, counted from 0. The result is either the registers themselves or buffer.
const uint32_t *read_other_bits(Wave &wave, const Instruction &instruction, int k, Lanes &buffer);
const uint32_t *read_signed_f32(Wave &wave, const Instruction &instruction, int k, Lanes &buffer);
const uint32_t *read_u16(Wave &wave, const Instruction &instruction, int k, Lanes &buffer); // zero-extended
const uint32_t *read_f16(Wave &wave, const Instruction &instruction, int k, Lanes &buffer); // as bits of f32
uint64_t read_pair(Wave &wave, const Instruction &instruction, int k, int lane);            // 64 bits
double read_f64(Wave &wave, const Instruction &instruction, int k, int lane);

void write_bits(Wave &wave, const Instruction &instruction, const uint32_t *values);
void write_u16(Wave &wave, const Instruction &instruction, const uint32_t *values);
void write_pair(Wave &wave, const Instruction &instruction, const uint64_t *values);
float scaled(const Instruction &instruction, float value); // output modifiers

inline const Operand &source(const Instruction &instruction, int k) {
    return instruction.operands[size_t(instruction.first_source + k)];
}

// As most operands are: registers as they lie.
inline const uint32_t *read_bits(Wave &wave, const Instruction &instruction, int k, Lanes &buffer) {
    const Operand &operand = source(instruction, k);
    if (operand.source == Source::vector && (k != 0 || instruction.move == LaneMove::none))
        return wave.vectors[operand.index];
    return read_other_bits(wave, instruction, k, buffer);
}
inline const uint32_t *read_f32(Wave &wave, const Instruction &instruction, int k, Lanes &buffer) {
    const Operand &operand = source(instruction, k);
    if (operand.negate || operand.absolute) return read_signed_f32(wave, instruction, k, buffer);
    return read_bits(wave, instruction, k, buffer);
}

template <auto function, class Element>
consteval int sources() {
    if constexpr (std::invocable<decltype(function), Element, Element, Element>)
        return 3;
    else if constexpr (std::invocable<decltype(function), Element, Element>)
        return 2;
    else
        return 1;
}

template <auto function, class Element>
auto apply(Element a, Element b, Element c) {
    if constexpr (sources<function, Element>() == 3)
        return function(a, b, c);
    else if constexpr (sources<function, Element>() == 2)
        return function(a, b);
    else
        return function(a);
}

using Read = const uint32_t *(*)(Wave &, const Instruction &, int, Lanes &);
using Write = void (*)(Wave &, const Instruction &, const uint32_t *);

// Element is uint32_t or float, which the bits are taken as.
template <auto function, class Element, Read read, class Result>
void map_lanes(Wave &wave, const Instruction &instruction, Lanes &result, Result make_result) {
    constexpr int count = sources<function, Element>();
    Lanes buffers[3];
    const uint32_t *a = read(wave, instruction, 0, buffers[0]);
    const uint32_t *b = count > 1 ? read(wave, instruction, 1, buffers[1]) : a;
    const uint32_t *c = count > 2 ? read(wave, instruction, 2, buffers[2]) : a;
    for_all_lanes(wave, [&](int lane) {
        result[lane] = make_result(apply<function, Element>(
            std::bit_cast<Element>(a[lane]), std::bit_cast<Element>(b[lane]), std::bit_cast<Element>(c[lane])));
    });
}

template <auto function>
void on_bits(Wave &wave, const Instruction &instruction) {
    Lanes result;
    map_lanes<function, uint32_t, read_bits>(wave, instruction, result, [](uint32_t value) { return value; });
    write_bits(wave, instruction, result);
}

template <auto function>
void on_f32(Wave &wave, const Instruction &instruction) {
    Lanes result;
    map_lanes<function, float, read_f32>(wave, instruction, result, [](float value) { return as_bits(value); });
    if (instruction.output_scale || instruction.clamps)
        for_all_lanes(wave, [&](int lane) { result[lane] = as_bits(scaled(instruction, as_float(result[lane]))); });
    write_bits(wave, instruction, result);
}

template <auto function>
void on_f16(Wave &wave, const Instruction &instruction) {
    wave.require_nearest();
    Lanes result;
    map_lanes<function, float, read_f16>(wave, instruction, result, [&](auto value) {
        if (instruction.output_scale || instruction.clamps)
            return uint32_t(float_to_half(scaled(instruction, float(value))));
        return uint32_t(double_to_half(double(value)));
    });
    write_u16(wave, instruction, result);
}

template <auto function>
void on_u16(Wave &wave, const Instruction &instruction) {
    Lanes result;
    map_lanes<function, uint32_t, read_u16>(wave, instruction, result,
                                            [](auto value) { return uint32_t(value) & 0xffff; });
    write_u16(wave, instruction, result);
}

// From one format to another.
template <auto function, class Element, Read read, Write write>
void convert(Wave &wave, const Instruction &instruction) {
    Lanes result;
    map_lanes<function, Element, read>(wave, instruction, result, [](uint32_t value) { return value; });
    write(wave, instruction, result);
}

} // namespace execute
