// The buffer scores, in the workspace: the scores [B,Hq,Lq,Lk] of the unfused kernels, by slot, or the states of
// attention/states.glsl.
#ifndef SCORES_GLSL
#define SCORES_GLSL

#include "attention/parameters.glsl"

layout(set = 0, binding = BINDING_SCORES, std430) buffer ScoresBuffer { float scores[]; };

#endif
