// f32.
#ifndef F32_GLSL
#define F32_GLSL

float f32_value(uint bits) { return uintBitsToFloat(bits); }
vec4 f32_values(uvec4 words) { return uintBitsToFloat(words); }
uint f32_bits(float value) { return floatBitsToUint(value); }

#endif
