// Numbers as whole ones in the same order: a greater number has a greater rank, equal ones have the same. A NaN is above
// every number, as in PyTorch.
#ifndef RANK_GLSL
#define RANK_GLSL

const uint RANK_OF_NOTHING = 0u; // is never selected
const uint RANK_OF_NAN = 0xfffffffeu;
const uint HIGHEST_RANK = 0xffffffffu; // of no number

uint rank_of(float number) {
    uint bits = floatBitsToUint(number);
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return RANK_OF_NAN;
    if (magnitude == 0u) return 0x80000000u;
    return bits == magnitude ? bits | 0x80000000u : ~bits;
}

float number_of_rank(uint rank) {
    if (rank == RANK_OF_NAN) return uintBitsToFloat(0x7fc00000u);
    return uintBitsToFloat((rank & 0x80000000u) != 0u ? rank & 0x7fffffffu : ~rank);
}

#endif
