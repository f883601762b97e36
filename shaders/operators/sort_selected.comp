// Sorts what is selected of each row: the highest ranks first, of equal ones the lower indices.
//
// ranks, indices [rows,width] -> output [B,L,width], indices [rows,width], each if it is there
// grid: (rows)
#version 460
#extension GL_GOOGLE_include_directive : require

#include "interface/select.h"

layout(local_size_x = SELECT_WORKGROUP_SIZE) in;

SELECT_CONSTANTS(VKATTN_CONSTANT)

#define PUSH SelectPush
#include "common/push.glsl"
#include "common/rank.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_SELECT_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_SELECT_RANKS, std430) readonly buffer RanksBuffer { uint ranks[]; };
layout(set = 0, binding = BINDING_SELECT_INDICES, std430) readonly buffer IndicesBuffer { uint indices[]; };
layout(set = 0, binding = BINDING_SELECT_TO_INDICES, std430) writeonly buffer ToIndicesBuffer { uint to_indices[]; };

#define SORT_TYPE uvec2
#define RANK(a) rank_of_signed((a).x)
#define SORT_PRECEDES(a, b) (RANK(a) > RANK(b) || (RANK(a) == RANK(b) && (a).y < (b).y))
#define SORT_LEN SORTED_LEN
#define SORT_SIZE SELECT_WORKGROUP_SIZE
#include "common/sort.glsl"

void main() {
    uint row = workgroup().x, begin = row * push.width;
    uint rank = base_bytes(BINDING_SELECT_RANKS) / 4 + begin, index = base_bytes(BINDING_SELECT_INDICES) / 4 + begin;
    for (uint i = gl_LocalInvocationID.x; i < SORTED_LEN; i += SELECT_WORKGROUP_SIZE)
        sorted[i] = i < push.width ? uvec2(ranks[rank + i], indices[index + i]) : uvec2(RANK_OF_NOTHING, 0xffffffffu);
    sort_shared();
    uint to = row / push.positions * push.output_strides[0] + row % push.positions * push.output_strides[1];
    for (uint i = gl_LocalInvocationID.x; i < push.width; i += SELECT_WORKGROUP_SIZE) {
        if (OUTPUT_FORMAT != FORMAT_NONE) output_store(OUTPUT_FORMAT, to + i, number_of_rank(sorted[i].x));
        if (HAS_TO_INDICES != 0) to_indices[base_bytes(BINDING_SELECT_TO_INDICES) / 4 + begin + i] = sorted[i].y;
    }
}
