// The kernel's push constants, and where a tensor starts inside its bound range. A descriptor's offset must be a
// multiple of the device's alignment (at most 256 bytes), so what is left of the caller's offset comes as one byte a
// binding in the push constants.
// Before: PUSH, the struct of the push constants; its first member is `uint bases[]`.
#ifndef PUSH_GLSL
#define PUSH_GLSL

#ifndef PUSH
#error "PUSH is not defined, expected the struct of the push constants"
#endif

layout(push_constant, std430) uniform PushBlock { PUSH push; };

uint base_bytes(const uint binding) { return bitfieldExtract(push.bases[binding / 4], int(binding % 4) * 8, 8); }

#endif
