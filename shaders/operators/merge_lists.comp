// Merges neighbouring sorted runs of lists of keys: an entry's index is its own and the number of entries of the other run
// that go before it, of equal ones those of the earlier run.
//
// from, to I32 [B,H,L,N] contiguous; runs of `run` entries, the last one shorter
// grid: (tiles of N, L, B * H), an entry an invocation
#version 460
#extension GL_GOOGLE_include_directive : require

#include "interface/sort_lists.h"

layout(local_size_x = SORT_LISTS_WORKGROUP_SIZE) in;

#define PUSH SortListsPush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_SORT_LISTS_FROM, std430) readonly buffer FromBuffer { uint from[]; };
layout(set = 0, binding = BINDING_SORT_LISTS_TO, std430) writeonly buffer ToBuffer { uint to[]; };

// Entries begin .. end - 1 that are below the bound: the first so many.
uint count_below(uint list, uint begin, uint end, uint bound) {
    uint low = begin, high = end;
    while (low < high) {
        uint middle = (low + high) / 2;
        if (from[list + middle] < bound)
            low = middle + 1;
        else
            high = middle;
    }
    return low - begin;
}

void main() {
    uvec3 group = workgroup();
    uint i = group.x * SORT_LISTS_WORKGROUP_SIZE + gl_LocalInvocationID.x;
    if (i >= push.len) return;
    uint offset = (group.z * push.positions + group.y) * push.len;
    uint list = base_bytes(BINDING_SORT_LISTS_FROM) / 4 + offset;
    uint pair = i / (2 * push.run) * (2 * push.run);
    uint middle = min(pair + push.run, push.len), end = min(pair + 2 * push.run, push.len);
    uint entry = from[list + i];
    uint before = i < middle ? i - pair + count_below(list, middle, end, entry)
                             : i - middle + count_below(list, pair, middle, entry + 1);
    to[base_bytes(BINDING_SORT_LISTS_TO) / 4 + offset + pair + before] = entry;
}
