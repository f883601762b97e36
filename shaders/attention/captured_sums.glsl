// Sums of the gradients of captured tensors' elements, which invocations of all workgroups add to in any order: of integers, so that the order does
// not show. A sum is a number of ten words in two's complement, in units of the smallest float32, which holds every float32 and
// 2^42 of them together, and behind it a word that is not 0 where a term was infinite or no number.
#ifndef CAPTURED_SUMS_GLSL
#define CAPTURED_SUMS_GLSL

#include "attention/parameters.glsl"

layout(set = 0, binding = BINDING_CAPTURED_SUMS, std430) buffer CapturedSumsBuffer { uint captured_sums[]; };

const uint SUM_WORDS = CAPTURED_SUM_WORDS - 1; // of the number

uint captured_sum_word(uint sum) { return base_bytes(BINDING_CAPTURED_SUMS) / 4 + sum * CAPTURED_SUM_WORDS; }

bool is_differentiated(uint tensor) { return (CAPTURED_GRADIENTS >> tensor & 1u) != 0u; }

// The number of a tensor's first sum: those of tensors that have gradients lie one behind the other.
uint first_captured_sum(uint tensor) {
    uint first = 0;
    [[unroll]] for (uint i = 0; i < CAPTURED_TENSORS; ++i) if (i < tensor && is_differentiated(i)) first +=
        parameters.captured_elements[i];
    return first;
}

// Adds to a sum, exactly but for numbers below the smallest normal one. Each carry goes to the next word once, whoever's addition made it.
void add_to_captured_sum(uint sum, float term) {
    uint bits = floatBitsToUint(term), exponent = bitfieldExtract(bits, 23, 8), first = captured_sum_word(sum);
    if (exponent == 255) atomicOr(captured_sums[first + SUM_WORDS], 1u);
    bool is_negative = (bits & 0x80000000u) != 0;
    uint mantissa = bits & 0x007fffffu | 0x00800000u, shift = (exponent - 1) % 32, word = (exponent - 1) / 32;
    uint part = mantissa << shift, next = mantissa >> 1 >> 31 - shift;
    if (exponent == 0 || exponent == 255) part = next = word = 0;
    while (word < SUM_WORDS && (part | next) != 0) {
        uint before = atomicAdd(captured_sums[first + word], is_negative ? 0u - part : part);
        bool carries = is_negative ? before < part : before + part < before;
        part = next + uint(carries);
        next = 0;
        ++word;
    }
}

// The float that is next to a sum, of two the even one.
float captured_sum_value(uint sum) {
    uint first = captured_sum_word(sum);
    bool is_negative = (captured_sums[first + SUM_WORDS - 1] & 0x80000000u) != 0;
    uint carry = uint(is_negative), below = 0, head = 0, behind = 0,
         place = 0;                  // the highest word that is not 0, and the one below it
    bool more = false, rest = false; // whether there is more below those
    [[dont_unroll]] for (uint i = 0; i < SUM_WORDS; ++i) {
        uint given = captured_sums[first + i], word = is_negative ? ~given + carry : given;
        carry = uint(carry != 0 && word == 0);
        if (word != 0) {
            head = word;
            behind = below;
            rest = more;
            place = i;
        }
        more = more || below != 0;
        below = word;
    }
    if (captured_sums[first + SUM_WORDS] != 0) return uintBitsToFloat(0x7fc00000u);
    if (head == 0) return 0.0;
    uint shift = 31 - uint(findMSB(head)), top = head << shift | behind >> 1 >> 31 - shift;
    rest = rest || behind << shift != 0;
    int exponent = int(32 * place + 31 - shift) - 22;
    uint half_of_last = top & 0xffu, mantissa = top >> 8;
    bool rounds_up = half_of_last > 0x80u || half_of_last == 0x80u && (rest || (mantissa & 1u) != 0);
    uint bits = (uint(clamp(exponent, 1, 254)) << 23) + (mantissa & 0x007fffffu) + uint(rounds_up);
    if (exponent < 1) bits = 0;
    if (exponent > 254) bits = 0x7f800000u;
    return uintBitsToFloat(bits | (is_negative ? 0x80000000u : 0u));
}

// Of an invocation's latest element of each tensor what is not in its sum yet: neighbouring pairs often have the same element.
const uint NO_ELEMENT = 0xffffffffu;
uint latest_element[CAPTURED_TENSORS];
float latest_sum[CAPTURED_TENSORS];
float pair_gradient; // of the score of the pair at hand

void add_captured_grad(uint tensor, uint element, float derivative) {
    bool counts =
        derivative != 0.0 && tensor < CAPTURED_TENSORS && is_differentiated(tensor) && is_captured(tensor, element);
    if (counts && element != latest_element[tensor]) {
        if (latest_element[tensor] != NO_ELEMENT)
            add_to_captured_sum(first_captured_sum(tensor) + latest_element[tensor], latest_sum[tensor]);
        latest_element[tensor] = element;
        latest_sum[tensor] = 0.0;
    }
    if (counts) latest_sum[tensor] += pair_gradient * derivative;
}

#endif
