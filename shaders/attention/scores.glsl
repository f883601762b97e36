// The buffer scores, in the workspace: the scores [B,Hq,Lq,Lk] of the unfused kernels, by slot. Other kernels keep states there:
// attention/states.glsl.
#ifndef SCORES_GLSL
#define SCORES_GLSL

#include "attention/parameters.glsl"

layout(set = 0, binding = BINDING_SCORES, std430) buffer ScoresBuffer { float scores[]; };

#endif
