// squared_norm = the sum of (scale * gradient)^2, and what it held where it accumulates.
//
// gradient, contiguous -> squared_norm F32 [1]
// A gradient of several parts takes two dispatches: WRITES_PARTS, whose grid is (parts), and READS_PARTS; of one part a single one. grid: (1)
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128) in;

#include "interface/squared_norm.h"

SQUARED_NORM_CONSTANTS(VKATTN_CONSTANT)

#define PUSH SquaredNormPush
#include "common/push.glsl"

#define TENSOR gradient
#define TENSOR_BINDING BINDING_SQUARED_NORM_GRADIENT
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_SQUARED_NORM_SQUARED_NORM, std430) buffer SquaredNormBuffer {
    float squared_norms[];
};
layout(set = 0, binding = BINDING_SQUARED_NORM_PARTS, std430) buffer PartsBuffer { float parts[]; };

#define REDUCE_SIZE SQUARED_NORM_WORKGROUP_SIZE
#include "common/reduce.glsl"

// Of elements `first` and so on that are below `end`, fours that are loaded together.
float sum_of_fours(uint first, uint end) {
    const uint FOURS_AT_ONCE = 4;
    vec4 sum = vec4(0.0);
    for (uint i = first + 4 * gl_LocalInvocationID.x; i < end; i += FOURS_AT_ONCE * 4 * SQUARED_NORM_WORKGROUP_SIZE) {
        vec4 fours[FOURS_AT_ONCE];
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) fours[k] =
            gradient_load4(GRADIENT_FORMAT, true, min(i + k * 4 * SQUARED_NORM_WORKGROUP_SIZE, end - 4), 1) *
            push.scale;
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) sum +=
            i + k * 4 * SQUARED_NORM_WORKGROUP_SIZE < end ? fours[k] * fours[k] : vec4(0.0);
    }
    return sum.x + sum.y + sum.z + sum.w;
}

float sum_of_elements() {
    uint first = workgroup().x * SQUARED_NORM_PART_ELEMENTS;
    uint end = min(first + SQUARED_NORM_PART_ELEMENTS, push.elements), whole = IN_FOURS != 0u ? end & ~3u : first;
    float sum = sum_of_fours(first, whole);
    for (uint i = whole + gl_LocalInvocationID.x; i < end; i += SQUARED_NORM_WORKGROUP_SIZE) {
        float element = gradient_load(GRADIENT_FORMAT, i) * push.scale;
        sum += element * element;
    }
    return sum;
}

float sum_of_parts() {
    float sum = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < push.parts; i += SQUARED_NORM_WORKGROUP_SIZE)
        sum += parts[base_bytes(BINDING_SQUARED_NORM_PARTS) / 4 + i];
    return sum;
}

void main() {
    float sum = reduce_sum(READS_PARTS != 0u ? sum_of_parts() : sum_of_elements());
    if (gl_LocalInvocationID.x != 0) return;
    if (WRITES_PARTS != 0u) {
        parts[base_bytes(BINDING_SQUARED_NORM_PARTS) / 4 + workgroup().x] = sum;
        return;
    }
    uint at = base_bytes(BINDING_SQUARED_NORM_SQUARED_NORM) / 4;
    squared_norms[at] = ACCUMULATES != 0u ? squared_norms[at] + sum : sum;
}
