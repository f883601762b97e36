// The orthonormal Walsh-Hadamard transform (Sylvester's order) of rows, in blocks of BLOCK neighbours.
//
// source [B,H,L,D] -> target [B,H,L,D], which may be the source; packed [1,H,total,D] with cu_seqlens, where rows of no
// sequence stay as they are
// grid: (tiles of L * D, H, B): a workgroup's tile is whole blocks, so that it alone reads and writes them
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface/hadamard.h"

HADAMARD_CONSTANTS(VKATTN_CONSTANT)

#define PUSH HadamardPush
#define CU_SEQLENS_BINDING BINDING_HADAMARD_CU_SEQLENS
#include "layers/packed.glsl"

#define TENSOR source
#define TENSOR_BINDING BINDING_HADAMARD_SOURCE
#include "common/tensor.glsl"

#define TENSOR target
#define TENSOR_BINDING BINDING_HADAMARD_TARGET
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

shared float tile[HADAMARD_TILE];

uint place_of(uint strides[4], uint element) {
    return workgroup().z * strides[0] + workgroup().y * strides[1] + element / HEAD_DIM * strides[2] +
           element % HEAD_DIM * strides[3];
}

// Each pair of elements of a block whose numbers differ in one bit: their sum and their difference.
void mix(uint bit) {
    for (uint pair = gl_LocalInvocationID.x; pair < HADAMARD_TILE / 2; pair += HADAMARD_WORKGROUP_SIZE) {
        uint first = 2 * pair - pair % bit;
        float a = tile[first], b = tile[first + bit];
        tile[first] = a + b;
        tile[first + bit] = a - b;
    }
}

bool is_written(uint element) {
    if (element >= push.elements) return false;
    if (PACKED == 0u) return true;
    PackedToken token = token_of_row(element / HEAD_DIM, push.sequences, push.elements / HEAD_DIM);
    return token.exists && token.token < push.positions;
}

void main() {
    uint begin = workgroup().x * HADAMARD_TILE;
    for (uint i = gl_LocalInvocationID.x; i < HADAMARD_TILE; i += HADAMARD_WORKGROUP_SIZE)
        tile[i] =
            begin + i < push.elements ? source_load(SOURCE_FORMAT, place_of(push.source_strides, begin + i)) : 0.0;
    barrier();
    for (uint bit = 1; bit < BLOCK; bit *= 2) {
        mix(bit);
        barrier();
    }
    for (uint i = 2 * gl_LocalInvocationID.x; i < HADAMARD_TILE; i += 2 * HADAMARD_WORKGROUP_SIZE) {
        if (!is_written(begin + i)) continue;
        target_store2(TARGET_FORMAT, TARGET_PAIRS != 0u, place_of(push.target_strides, begin + i),
                      push.target_strides[3], push.scale * vec2(tile[i], tile[i + 1]));
    }
}
