// The products of two pairs of f16, added to an f32 by one instruction (SPV_VALVE_mixed_float_dot_product). Each pair is a word.
// Halves that are smaller than the least normal one may count as 0.
#ifndef DOT_OF_HALVES_GLSL
#define DOT_OF_HALVES_GLSL

#define CAPABILITY_DOT_PRODUCT_FLOAT16_ACC_FLOAT32 6912
#define OP_FDOT2_MIX_ACC32 6916
spirv_instruction(extensions = ["SPV_VALVE_mixed_float_dot_product"],
                  capabilities = [CAPABILITY_DOT_PRODUCT_FLOAT16_ACC_FLOAT32],
                  id = OP_FDOT2_MIX_ACC32) float dot_of_pairs(f16vec2 a, f16vec2 b, float sum);

float dot_of_halves(uint a, uint b, float sum) { return dot_of_pairs(unpackFloat2x16(a), unpackFloat2x16(b), sum); }

#endif
