// output[b,l,:] = weight[tokens[b,l],:]; zeros for a token that has no row.
//
// tokens I32 [B,L], weight [rows,N] -> output [B,L,N]
// grid: (L, B), one workgroup a token; an invocation owns the pairs 2 * (local index + n * EMBEDDING_WORKGROUP_SIZE),
// so that two 16-bit values may share a word
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface.h"

EMBEDDING_CONSTANTS(VKATTN_CONSTANT)

layout(push_constant, std430) uniform PushBlock { EmbeddingPush push; };

#include "lib/bases.glsl"

layout(set = 0, binding = BINDING_EMBEDDING_TOKENS, std430) readonly buffer TokensBuffer { int tokens[]; };
layout(set = 0, binding = BINDING_EMBEDDING_WEIGHT, std430) readonly buffer WeightBuffer { uint weight_words[]; };
layout(set = 0, binding = BINDING_EMBEDDING_OUTPUT, std430) buffer OutputBuffer { uint output_words[]; };

#define WORDS weight_words
#define BINDING BINDING_EMBEDDING_WEIGHT
#define LOAD load_weight
#define LOAD4 load_weight4
#define LOAD_QUANTISED load_quantised_weight
#include "lib/load.glsl"

#include "lib/round.glsl"

#define WORDS output_words
#define BINDING BINDING_EMBEDDING_OUTPUT
#define STORE store_output
#define STORE2 store_output2
#include "lib/store.glsl"

int token() {
    uint element = gl_WorkGroupID.y * push.token_strides[0] + gl_WorkGroupID.x * push.token_strides[1];
    return tokens[base_bytes(BINDING_EMBEDDING_TOKENS) / 4 + element];
}

void main() {
    int row = token();
    bool known = row >= 0 && uint(row) < push.rows;
    uint from = known ? uint(row) * push.row_stride : 0;
    uint to = gl_WorkGroupID.y * push.output_strides[0] + gl_WorkGroupID.x * push.output_strides[1];
    for (uint i = 2 * gl_LocalInvocationID.x; i < push.features; i += 2 * EMBEDDING_WORKGROUP_SIZE) {
        float first = known ? load_weight(WEIGHT_FORMAT, from + i) : 0.0;
        if (i + 1 == push.features) {
            store_output(OUTPUT_FORMAT, to + i, first);
            continue;
        }
        float second = known ? load_weight(WEIGHT_FORMAT, from + i + 1) : 0.0;
        store_output2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0u, to + i, 1, vec2(first, second));
    }
}
