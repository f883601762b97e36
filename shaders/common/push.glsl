// The kernel's push constants, the workgroup's index, and where a tensor starts inside its bound range.
// A grid may be larger than the device allows, or more work than one dispatch may be. Then several dispatches share it, and
// the push constants say at which workgroup each begins.
// A descriptor's offset must be a multiple of the device's alignment (at most 256 bytes), so what is left of the caller's
// offset comes as one byte a binding in the push constants.
// Before: PUSH, the struct of the push constants; its first members are `uint first_group[3]` and `uint bases[]`.
#ifndef PUSH_GLSL
#define PUSH_GLSL

#ifndef PUSH
#error "PUSH is not defined, expected the struct of the push constants"
#endif

layout(push_constant, std430) uniform PushBlock { PUSH push; };

// Use it in place of gl_WorkGroupID.
uvec3 workgroup() { return gl_WorkGroupID + uvec3(push.first_group[0], push.first_group[1], push.first_group[2]); }

uint base_bytes(const uint binding) { return bitfieldExtract(push.bases[binding / 4], int(binding % 4) * 8, 8); }

#endif
