// Sorts chunks of lists of keys, so that the order of a list does not change a bit of what is made of it.
//
// from I32 [B,H,L,N] -> to I32 [B,H,L,N] contiguous: each chunk of SORT_LISTS_CHUNK entries ascending; entries that name
// nothing are NO_BLOCK, and so the last
// grid: (chunks, L, B * H)
#version 460
#extension GL_GOOGLE_include_directive : require

#include "interface/sort_lists.h"

layout(local_size_x = SORT_LISTS_WORKGROUP_SIZE) in;

SORT_LISTS_CONSTANTS(VKATTN_CONSTANT)

#define PUSH SortListsPush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_SORT_LISTS_FROM, std430) readonly buffer FromBuffer { int from[]; };
layout(set = 0, binding = BINDING_SORT_LISTS_TO, std430) writeonly buffer ToBuffer { uint to[]; };

#define SORT_TYPE uint
#define SORT_PRECEDES(a, b) ((a) < (b))
#define SORT_LEN SORTED_LEN
#define SORT_SIZE SORT_LISTS_WORKGROUP_SIZE
#include "common/sort.glsl"

shared uint is_unsorted;

// Whether the chunk is not yet in order, as index leaves lists.
bool needs_sorting() {
    if (gl_LocalInvocationID.x == 0) is_unsorted = 0;
    barrier(); // and the entries are there
    for (uint i = gl_LocalInvocationID.x + 1; i < SORTED_LEN; i += SORT_LISTS_WORKGROUP_SIZE)
        if (sorted[i - 1] > sorted[i]) atomicOr(is_unsorted, 1u);
    barrier();
    return is_unsorted != 0;
}

const uint NO_BLOCK = 0x7fffffffu;

uint block_of_entry(uint element) {
    uint block = uint(from[base_bytes(BINDING_SORT_LISTS_FROM) / 4 + element]);
    return block < push.blocks ? block : NO_BLOCK;
}

void main() {
    uvec3 group = workgroup();
    uint begin = group.x * SORT_LISTS_CHUNK, end = min(begin + SORT_LISTS_CHUNK, push.len);
    uint from_list = group.z / push.heads * push.from_strides[0] + group.z % push.heads * push.from_strides[1] +
                     group.y * push.from_strides[2];
    for (uint i = gl_LocalInvocationID.x; i < SORTED_LEN; i += SORT_LISTS_WORKGROUP_SIZE)
        sorted[i] = begin + i < end ? block_of_entry(from_list + begin + i) : NO_BLOCK;
    if (needs_sorting()) sort_shared();
    uint to_list = base_bytes(BINDING_SORT_LISTS_TO) / 4 + (group.z * push.positions + group.y) * push.len;
    for (uint i = gl_LocalInvocationID.x; begin + i < end; i += SORT_LISTS_WORKGROUP_SIZE)
        to[to_list + begin + i] = sorted[i];
}
