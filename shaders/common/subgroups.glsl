// Subgroups: their number, an invocation's place in its own, and what GL_KHR_shader_subgroup_* exchange among invocations.
// Where EMULATED_SUBGROUPS is defined they are made of shared memory, in any width, for tests on CPU drivers.
#ifndef SUBGROUPS_GLSL
#define SUBGROUPS_GLSL

#ifdef EMULATED_SUBGROUPS
#include "emulated/subgroups.glsl"
#else
uint subgroup_index() { return gl_SubgroupID; }
uint subgroup_lane() { return gl_SubgroupInvocationID; }
#endif

#endif
