// max(x, 0), but what is not a number stays so: which of the two max() returns then is the device's own affair.
#ifndef RELU_GLSL
#define RELU_GLSL

// By its bits: compilers may make max() of a comparison. Negative numbers, to -infinity, are 0.
float relu(float x) { return floatBitsToUint(x) - 0x80000000u <= 0x7f800000u ? 0.0 : x; }

#endif
