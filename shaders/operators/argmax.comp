// tokens[b,l] = the n for which input[b,l,n] is greatest, of equal ones the lowest; NaN is greater than all numbers.
//
// input [B,L,N] -> tokens I32 [B,L], values F32 [B,L] where they are asked for
// A row of several parts takes two dispatches: WRITES_PARTS, whose grid is (parts, L, B), and READS_PARTS; of one part a
// single one. grid: (1, L, B)
// Numbers are compared by their ranks, so that no compiler's rules for NaN matter.
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "interface/argmax.h"

ARGMAX_CONSTANTS(VKATTN_CONSTANT)

#define PUSH ArgmaxPush
#include "common/push.glsl"
#include "common/rank.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_ARGMAX_INPUT
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_ARGMAX_TOKENS, std430) writeonly buffer TokensBuffer { int tokens[]; };
layout(set = 0, binding = BINDING_ARGMAX_VALUES, std430) writeonly buffer ValuesBuffer { uint values[]; };
layout(set = 0, binding = BINDING_ARGMAX_PARTS, std430) buffer PartsBuffer { uint parts[]; };

shared uvec2 greatest[ARGMAX_WORKGROUP_SIZE];

// Of two (rank, index) the one with the greater rank, of equal ones with the lower index.
uvec2 greater(uvec2 a, uvec2 b) { return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a; }

uint row_of(const uint strides[2]) { return workgroup().z * strides[0] + workgroup().y * strides[1]; }

uint first_part() {
    return base_bytes(BINDING_ARGMAX_PARTS) / 4 + (workgroup().z * push.rows + workgroup().y) * push.parts * 2;
}

uvec2 greatest_of_elements() {
    uvec2 own = uvec2(RANK_OF_NOTHING, 0xffffffffu);
    uint begin = workgroup().x * ARGMAX_PART_ELEMENTS, end = min(begin + ARGMAX_PART_ELEMENTS, push.features);
    for (uint i = begin + gl_LocalInvocationID.x; i < end; i += ARGMAX_WORKGROUP_SIZE)
        own = greater(own, uvec2(rank_of(input_load(INPUT_FORMAT, row_of(push.input_strides) + i)), i));
    return own;
}

uvec2 greatest_of_parts() {
    uvec2 own = uvec2(RANK_OF_NOTHING, 0xffffffffu);
    for (uint part = gl_LocalInvocationID.x; part < push.parts; part += ARGMAX_WORKGROUP_SIZE)
        own = greater(own, uvec2(parts[first_part() + 2 * part], parts[first_part() + 2 * part + 1]));
    return own;
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    greatest[lane] = READS_PARTS != 0u ? greatest_of_parts() : greatest_of_elements();
    barrier();
    for (uint half_width = ARGMAX_WORKGROUP_SIZE / 2; half_width > 0; half_width /= 2) {
        if (lane < half_width) greatest[lane] = greater(greatest[lane], greatest[lane + half_width]);
        barrier();
    }
    if (lane != 0u) return;
    if (WRITES_PARTS != 0u) {
        uint at = first_part() + 2 * workgroup().x;
        parts[at] = greatest[0].x;
        parts[at + 1] = greatest[0].y;
        return;
    }
    tokens[base_bytes(BINDING_ARGMAX_TOKENS) / 4 + row_of(push.tokens_strides)] = int(greatest[0].y);
    if (HAS_VALUES != 0u)
        values[base_bytes(BINDING_ARGMAX_VALUES) / 4 + row_of(push.values_strides)] =
            floatBitsToUint(input_load(INPUT_FORMAT, row_of(push.input_strides) + greatest[0].y)); // ranks know no -0
}
