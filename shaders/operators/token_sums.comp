// Sums over tokens, in parts that one workgroup each sums in the tokens' order: the same bits every time.
//
// sums[part,n] = sum over the part's tokens of d_output[token,n], with an input times (input[token,n] - mean) * scale
// d_output and input [B,L,N], statistics [B*L,2] (mean, scale) -> sums [P,N], which ACCUMULATES adds to; no d_output: zeros
// grid: (tiles of 4 * 64 features, P); an invocation owns four neighbouring features
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "interface/token_sums.h"

layout(local_size_x = TOKEN_SUMS_WORKGROUP_SIZE) in;

TOKEN_SUMS_CONSTANTS(VKATTN_CONSTANT)

#define PUSH TokenSumsPush
#include "common/push.glsl"

#define TENSOR d_output
#define TENSOR_BINDING BINDING_TOKEN_SUMS_D_OUTPUT
#include "common/tensor.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_TOKEN_SUMS_INPUT
#include "common/tensor.glsl"

#define TENSOR statistics
#define TENSOR_BINDING BINDING_TOKEN_SUMS_STATISTICS
#include "common/tensor.glsl"

#define TENSOR sums
#define TENSOR_BINDING BINDING_TOKEN_SUMS_SUMS
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

const uint TOKENS_AT_ONCE = 8; // whose loads are under way together

uint start_of(const uint strides[2], uint token) {
    return token / push.positions * strides[0] + token % push.positions * strides[1];
}

// Of features past the last, zeros.
vec4 load_gradients(uint token, uint feature) {
    uint start = start_of(push.d_output_strides, token) + feature;
    if (IN_FOURS != 0) return d_output_load4(D_OUTPUT_FORMAT, true, start, 1);
    vec4 four = vec4(0);
    for (uint i = 0; i < min(4, push.features - feature); ++i) four[i] = d_output_load(D_OUTPUT_FORMAT, start + i);
    return four;
}

vec4 load_normalised(uint token, uint feature) {
    uint start = start_of(push.input_strides, token) + feature;
    float mean = statistics_load(FORMAT_F32, 2 * token), scale = statistics_load(FORMAT_F32, 2 * token + 1);
    if (IN_FOURS != 0) return (input_load4(INPUT_FORMAT, true, start, 1) - mean) * scale;
    vec4 four = vec4(0);
    for (uint i = 0; i < min(4, push.features - feature); ++i) four[i] = input_load(INPUT_FORMAT, start + i);
    return (four - mean) * scale;
}

vec4 sum_of_part(uint feature) {
    vec4 sum = vec4(0);
    uint first = workgroup().y * push.tokens_of_part, end = min(first + push.tokens_of_part, push.tokens);
    for (; first < end; first += TOKENS_AT_ONCE) {
        vec4 terms[TOKENS_AT_ONCE];
        [[unroll]] for (uint i = 0; i < TOKENS_AT_ONCE; ++i) {
            uint token = min(first + i, end - 1);
            terms[i] = load_gradients(token, feature);
            if (INPUT_FORMAT != FORMAT_NONE) terms[i] *= load_normalised(token, feature);
        }
        [[unroll]] for (uint i = 0; i < TOKENS_AT_ONCE; ++i) if (first + i < end) sum += terms[i];
    }
    return sum;
}

void main() {
    uint feature = 4 * (workgroup().x * TOKEN_SUMS_WORKGROUP_SIZE + gl_LocalInvocationID.x);
    if (feature >= push.features) return;
    vec4 sum = D_OUTPUT_FORMAT == FORMAT_NONE ? vec4(0) : sum_of_part(feature);
    uint place = workgroup().y * push.sums_strides[0] + feature;
    for (uint i = 0; i < min(4, push.features - feature); i += 2) {
        bool has_second = feature + i + 1 < push.features;
        if (ACCUMULATES != 0) {
            sum[i] += sums_load(SUMS_FORMAT, place + i);
            if (has_second) sum[i + 1] += sums_load(SUMS_FORMAT, place + i + 1);
        }
        if (has_second)
            sums_store2(SUMS_FORMAT, SUMS_PAIRS != 0, place + i, 1, vec2(sum[i], sum[i + 1]));
        else
            sums_store(SUMS_FORMAT, place + i, sum[i]);
    }
}
