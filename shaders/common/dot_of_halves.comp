// Compiled where a build begins, to see whether its tools know the instruction.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(local_size_x = 1) in;

#include "common/dot_of_halves.glsl"

layout(set = 0, binding = 0, std430) buffer WordsBuffer { uint words[]; };

void main() { words[2] = floatBitsToUint(dot_of_halves(words[0], words[1], uintBitsToFloat(words[2]))); }
