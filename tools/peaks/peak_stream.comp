// The rate at which the device reads memory: every word once, a contiguous part of it by each workgroup.
// ADDRESSES: through device addresses that are the same for the whole workgroup, which are the fastest loads of some
// CPU drivers; else through the bound buffer, neighbouring invocations neighbouring blocks. AHEAD: an invocation has several
// loads under way, in large workgroups.
//
// input U32 [workgroups, iterations, PEAK_STREAM_BLOCKS, 4] -> sums U32 [invocations]
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef ADDRESSES
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#endif
#ifdef AHEAD
#extension GL_EXT_control_flow_attributes : require
#endif

#include "peak_sizes.h"

layout(push_constant, std430) uniform PushBlock {
    uint iterations;
    uint input_address[2]; // low word first
};
layout(set = 0, binding = PEAK_INPUT, std430) readonly buffer InputBuffer { uvec4 blocks[]; };
layout(set = 0, binding = PEAK_OUTPUT, std430) writeonly buffer OutputBuffer { uint sums[]; };

#ifdef ADDRESSES
layout(local_size_x = PEAK_ADDRESSES_WORKGROUP_SIZE) in;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Blocks {
    uvec4 values[PEAK_STREAM_BLOCKS];
};

uvec4 read_part() {
    const uint bytes = iterations * PEAK_STREAM_BLOCKS * 16;
    uint high, low, carry;
    umulExtended(gl_WorkGroupID.x, bytes, high, low);
    uvec2 address = uvec2(uaddCarry(input_address[0], low, carry), input_address[1] + high);
    address.y += carry;
    uvec4 sum = uvec4(0);
    uint iteration = 0;
    do { // some CPU drivers run a for loop's body once more with every lane off, and its unchecked loads with it
        [[unroll]] for (uint i = 0; i < PEAK_STREAM_BLOCKS; ++i) sum += Blocks(address).values[i];
        address.x = uaddCarry(address.x, PEAK_STREAM_BLOCKS * 16, carry);
        address.y += carry;
    } while (++iteration < iterations);
    return sum;
}
#elif defined AHEAD
layout(local_size_x = PEAK_AHEAD_WORKGROUP_SIZE) in;

const uint LOADS = 8;

uvec4 read_part() {
    const uint blocks_of_group = iterations * PEAK_STREAM_BLOCKS;
    uint at = gl_WorkGroupID.x * blocks_of_group + gl_LocalInvocationID.x;
    const uint end = (gl_WorkGroupID.x + 1) * blocks_of_group;
    uvec4 sum = uvec4(0);
    for (; at < end; at += LOADS * PEAK_AHEAD_WORKGROUP_SIZE) {
        uvec4 loaded[LOADS];
        [[unroll]] for (uint i = 0; i < LOADS; ++i) loaded[i] = blocks[at + i * PEAK_AHEAD_WORKGROUP_SIZE];
        [[unroll]] for (uint i = 0; i < LOADS; ++i) sum += loaded[i];
    }
    return sum;
}
#else
layout(local_size_x = PEAK_STREAM_BLOCKS) in;

uvec4 read_part() {
    uint first = gl_WorkGroupID.x * iterations * PEAK_STREAM_BLOCKS;
    uvec4 sum = uvec4(0);
    for (uint i = 0; i < iterations; ++i) sum += blocks[first + i * PEAK_STREAM_BLOCKS + gl_LocalInvocationID.x];
    return sum;
}
#endif

void main() {
    uvec4 sum = read_part();
    sums[gl_GlobalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
