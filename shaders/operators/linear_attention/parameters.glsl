// The constants, push constants and uniform block of the kernels of linear attention, and where a sequence's tokens lie.
#ifndef LINEAR_ATTENTION_PARAMETERS_GLSL
#define LINEAR_ATTENTION_PARAMETERS_GLSL

#include "interface/linear_attention.h"

LINEAR_ATTENTION_CONSTANTS(VKATTN_CONSTANT)

#define PUSH LinearAttentionPush
#define CU_SEQLENS_BINDING BINDING_LINEAR_ATTENTION_CU_SEQLENS
#include "operators/packed.glsl"

layout(set = 0, binding = LINEAR_ATTENTION_BINDINGS, std140) uniform ParameterBlock {
    LinearAttentionParameters parameters;
};

// A sequence's tokens: in which batch entry, the first one's row there, and how many they are.
struct Tokens {
    uint batch;
    uint first;
    uint count;
};

Tokens tokens_of(uint sequence) {
    if (HAS_CU_SEQLENS == 0) return Tokens(sequence, 0, parameters.len);
    uvec2 rows = packed_rows(sequence, parameters.total);
    return Tokens(0, rows.x, min(rows.y, parameters.longest));
}

// The element of a tensor [B,H,L,...] at which a token's row begins.
uint row_of(uvec4 strides, Tokens tokens, uint head, uint token) {
    return tokens.batch * strides.x + head * strides.y + (tokens.first + token) * strides.z;
}

uint key_head_of(uint head) { return head / push.group; }

#endif
