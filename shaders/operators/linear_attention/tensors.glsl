// The inputs of linear attention.
#ifndef LINEAR_ATTENTION_TENSORS_GLSL
#define LINEAR_ATTENTION_TENSORS_GLSL

#include "operators/linear_attention/parameters.glsl"

#define TENSOR query
#define TENSOR_BINDING BINDING_LINEAR_ATTENTION_QUERY
#include "common/tensor.glsl"

#define TENSOR key
#define TENSOR_BINDING BINDING_LINEAR_ATTENTION_KEY
#include "common/tensor.glsl"

#define TENSOR value
#define TENSOR_BINDING BINDING_LINEAR_ATTENTION_VALUE
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_LINEAR_ATTENTION_DECAY, std430) readonly buffer DecayBuffer { float decays[]; };
layout(set = 0, binding = BINDING_LINEAR_ATTENTION_BETA, std430) readonly buffer BetaBuffer { float betas[]; };

// The logarithm of a token's decay, of a channel where each has its own.
float decay_at(Tokens tokens, uint head, uint token, uint channel) {
    if (DECAY == DECAY_NONE) return 0.0;
    uint element = row_of(parameters.decay_strides, tokens, head, token);
    if (DECAY == DECAY_OF_CHANNEL) element += channel * parameters.decay_strides.w;
    return decays[base_bytes(BINDING_LINEAR_ATTENTION_DECAY) / 4 + element];
}

float beta_at(Tokens tokens, uint head, uint token) {
    if (HAS_BETA == 0) return 1.0;
    return betas[base_bytes(BINDING_LINEAR_ATTENTION_BETA) / 4 + row_of(parameters.beta_strides, tokens, head, token)];
}

#endif
