// Tiles from both ends in turn: under a causal mask neighbouring workgroups then have equal work.
#ifndef BOTH_ENDS_GLSL
#define BOTH_ENDS_GLSL

uint from_both_ends(uint index, uint tiles) { return index % 2 == 0 ? tiles - 1 - index / 2 : index / 2; }

#endif
