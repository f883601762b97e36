// The device's f32 multiply-add rate: chains of them that depend on nothing else. For the roofline, see ops/peaks.cpp.
//
// sums F32 [invocations]; an invocation makes push.trips * FMAS_OF_PEAK_TRIP multiply-adds
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "interface/peak.h"

layout(local_size_x = PEAK_WORKGROUP_SIZE) in;

#define PUSH PeakPush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_PEAK_OUTPUT, std430) writeonly buffer OutputBuffer { float sums[]; };

const uint CHAINS = 2; // of four: enough to hide the latency of one another
const uint LINKS = FMAS_OF_PEAK_TRIP / (4 * CHAINS);

void main() {
    vec4 chains[CHAINS];
    [[unroll]] for (uint c = 0; c < CHAINS; ++c) chains[c] = vec4(gl_GlobalInvocationID.x + c);
    float factor = 1.0 - 1.0 / float(push.trips + 2); // unknown before it runs, and keeps sums finite
    for (uint trip = 0; trip < push.trips; ++trip)
        [[unroll]] for (uint link = 0; link < LINKS; ++link) [[unroll]] for (uint c = 0; c < CHAINS; ++c) chains[c] =
            fma(chains[c], vec4(factor), vec4(1.0));
    vec4 sum = vec4(0);
    [[unroll]] for (uint c = 0; c < CHAINS; ++c) sum += chains[c];
    sums[base_bytes(BINDING_PEAK_OUTPUT) / 4 + gl_GlobalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
