// Sums of gradients that wait for the next dispatch, where several go in turn through what passes by a tile: f32, without gaps.
#ifndef CARRIES_GLSL
#define CARRIES_GLSL

#include "attention/parameters.glsl"

#ifdef MATRICES // which go through all that passes by in one dispatch, and find what the deltas' has left
layout(set = 0, binding = BINDING_CARRIES, std430) readonly buffer CarriesBuffer { float carries[]; };
#else
layout(set = 0, binding = BINDING_CARRIES, std430) buffer CarriesBuffer { float carries[]; };
#endif

bool resumes() { return has(FEATURE_SPLIT_KEYS) && push.first_key > 0; }

uint carry_element(uint element) { return base_bytes(BINDING_CARRIES) / 4 + element; }

// Four dims of a row that has so many, from `dim` on.
vec4 load_carry(uint row, uint dim, const uint dims) {
    vec4 block = vec4(0);
    for (uint i = 0; i < 4; ++i)
        if (dim + i < dims) block[i] = carries[carry_element(row + dim + i)];
    return block;
}

#ifdef MATRICES
void store_carry(uint row, uint dim, const uint dims, vec4 block) {}
#else
void store_carry(uint row, uint dim, const uint dims, vec4 block) {
    for (uint i = 0; i < 4; ++i)
        if (dim + i < dims) carries[carry_element(row + dim + i)] = block[i];
}
#endif

#endif
