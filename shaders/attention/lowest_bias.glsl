// What of attn_mask hides its key.
#ifndef LOWEST_BIAS_GLSL
#define LOWEST_BIAS_GLSL

// What lies below: in units of log 2 it would not be above LOWEST_MAXIMUM of parameters.glsl.
const float LOWEST_BIAS = -6.0e37;

#endif
