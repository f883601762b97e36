// The rate at which the device reads memory: every word once, neighbours by neighbours. For the roofline, see
// ops/peaks.cpp.
//
// input U32 [4 * push.trips * invocations] -> sums U32 [invocations]
#version 460
#extension GL_GOOGLE_include_directive : require

#include "interface.h"

layout(local_size_x = PEAK_WORKGROUP_SIZE) in;

layout(push_constant, std430) uniform PushBlock { PeakPush push; };

#include "lib/bases.glsl"

layout(set = 0, binding = BINDING_PEAK_INPUT, std430) readonly buffer InputBuffer { uvec4 blocks[]; };
layout(set = 0, binding = BINDING_PEAK_OUTPUT, std430) writeonly buffer OutputBuffer { uint sums[]; };

void main() {
    uint first = base_bytes(BINDING_PEAK_INPUT) / 16 + gl_WorkGroupID.x * push.trips * PEAK_WORKGROUP_SIZE;
    uvec4 sum = uvec4(0);
    for (uint trip = 0; trip < push.trips; ++trip)
        sum += blocks[first + trip * PEAK_WORKGROUP_SIZE + gl_LocalInvocationID.x];
    sums[base_bytes(BINDING_PEAK_OUTPUT) / 4 + gl_GlobalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
