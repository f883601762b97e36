// The device's f32 multiply-add rate: chains of multiply-adds that depend on nothing else.
//
// sums F32 [invocations]; an invocation does `iterations` * PEAK_FMAS multiply-adds
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "peak_sizes.h"

layout(local_size_x = PEAK_FMA_WORKGROUP_SIZE) in;

layout(push_constant, std430) uniform PushBlock { uint iterations; };
layout(set = 0, binding = PEAK_OUTPUT, std430) writeonly buffer OutputBuffer { float sums[]; };

const uint CHAINS = 2; // of four: enough to hide the latency of one another
const uint LINKS = PEAK_FMAS / (4 * CHAINS);

void main() {
    vec4 chains[CHAINS];
    [[unroll]] for (uint c = 0; c < CHAINS; ++c) chains[c] = vec4(gl_GlobalInvocationID.x + c);
    float factor = 1.0 - 1.0 / float(iterations + 2); // unknown to the compiler, and keeps sums finite
    for (uint i = 0; i < iterations; ++i)
        [[unroll]] for (uint link = 0; link < LINKS; ++link) [[unroll]] for (uint c = 0; c < CHAINS; ++c) chains[c] =
            fma(chains[c], vec4(factor), vec4(1.0));
    vec4 sum = vec4(0);
    [[unroll]] for (uint c = 0; c < CHAINS; ++c) sum += chains[c];
    sums[gl_GlobalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
