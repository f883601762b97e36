// Numbers as whole ones in the same order: a greater number has a greater rank, equal ones have the same. A NaN is above
// every number, as in PyTorch.
#ifndef RANK_GLSL
#define RANK_GLSL

const uint RANK_OF_NOTHING = 0u; // is never selected
const uint RANK_OF_NAN = 0xfffffffeu;
const uint HIGHEST_RANK = 0xffffffffu; // of no number
const uint RANK_OF_ZERO = 0x80000000u, RANK_OF_MINUS_ZERO = 0x7fffffffu;

// Which tells -0 from 0, so that number_of_rank returns it.
uint signed_rank_of(float number) {
    uint bits = floatBitsToUint(number);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return RANK_OF_NAN;
    return (bits & 0x80000000u) == 0u ? bits | 0x80000000u : ~bits;
}

uint rank_of_signed(uint rank) { return rank == RANK_OF_MINUS_ZERO ? RANK_OF_ZERO : rank; }

uint rank_of(float number) { return rank_of_signed(signed_rank_of(number)); }

// The one of the higher rank.
float greater(float a, float b) { return rank_of(b) > rank_of(a) ? b : a; }

float number_of_rank(uint rank) {
    if (rank == RANK_OF_NAN) return uintBitsToFloat(0x7fc00000u);
    return uintBitsToFloat((rank & 0x80000000u) != 0u ? rank & 0x7fffffffu : ~rank);
}

#endif
