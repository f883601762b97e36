// The rate at which the device reads memory: every word once, a stretch of it a workgroup. For the roofline, see
// ops/peaks.cpp. ADDRESSES: through device addresses that are the same for the whole workgroup, which are the fastest
// loads of some CPU drivers; else each invocation through the bound buffer, next to its neighbours.
//
// input U32 [workgroups, push.trips, PEAK_BLOCKS_OF_TRIP, 4] -> sums U32 [invocations]
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef ADDRESSES
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#endif

#include "interface/peak.h"

#ifdef ADDRESSES
layout(local_size_x = PEAK_ADDRESSES_WORKGROUP_SIZE) in;
#else
layout(local_size_x = PEAK_BLOCKS_OF_TRIP) in;
#endif

#define PUSH PeakPush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_PEAK_INPUT, std430) readonly buffer InputBuffer { uvec4 blocks[]; };
layout(set = 0, binding = BINDING_PEAK_OUTPUT, std430) writeonly buffer OutputBuffer { uint sums[]; };

#ifdef ADDRESSES
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Blocks {
    uvec4 values[PEAK_BLOCKS_OF_TRIP];
};

uvec4 read_stretch() {
    const uint bytes = push.trips * PEAK_BLOCKS_OF_TRIP * 16;
    uint high, low, carry;
    umulExtended(gl_WorkGroupID.x, bytes, high, low);
    uvec2 address = uvec2(uaddCarry(push.input_address[0], low, carry), push.input_address[1] + high);
    address.y += carry;
    uvec4 sum = uvec4(0);
    uint trip = 0;
    do { // see cpu/addresses.comp
        [[unroll]] for (uint i = 0; i < PEAK_BLOCKS_OF_TRIP; ++i) sum += Blocks(address).values[i];
        address.x = uaddCarry(address.x, PEAK_BLOCKS_OF_TRIP * 16, carry);
        address.y += carry;
    } while (++trip < push.trips);
    return sum;
}
#else
uvec4 read_stretch() {
    uint first = base_bytes(BINDING_PEAK_INPUT) / 16 + gl_WorkGroupID.x * push.trips * PEAK_BLOCKS_OF_TRIP;
    uvec4 sum = uvec4(0);
    for (uint trip = 0; trip < push.trips; ++trip)
        sum += blocks[first + trip * PEAK_BLOCKS_OF_TRIP + gl_LocalInvocationID.x];
    return sum;
}
#endif

void main() {
    uvec4 sum = read_stretch();
    sums[base_bytes(BINDING_PEAK_OUTPUT) / 4 + gl_GlobalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
