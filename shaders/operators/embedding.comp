// output[b,l,:] = weight[tokens[b,l],:]; zeros for a token that has no row.
//
// tokens I32 [B,L], weight [rows,N] -> output [B,L,N]; a weight that is above what a device binds comes in parts, a dispatch each:
// it stores the tokens of its rows, and the first one those that have no row
// grid: (L, B), one workgroup a token; an invocation owns the pairs 2 * (local index + n * EMBEDDING_WORKGROUP_SIZE),
// so that two 16-bit values may share a word
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface/embedding.h"

EMBEDDING_CONSTANTS(VKATTN_CONSTANT)

#define PUSH EmbeddingPush
#include "common/push.glsl"

#define TENSOR weight
#define TENSOR_BINDING BINDING_EMBEDDING_WEIGHT
#ifdef QUANTISED_WEIGHT
#define TENSOR_QUANTISED
#endif
#include "common/tensor.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_EMBEDDING_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_EMBEDDING_TOKENS, std430) readonly buffer TokensBuffer { int tokens[]; };

int token() {
    uint element = workgroup().y * push.tokens_strides[0] + workgroup().x * push.tokens_strides[1];
    return tokens[base_bytes(BINDING_EMBEDDING_TOKENS) / 4 + element];
}

void main() {
    int row = token();
    bool known = row >= 0 && uint(row) < push.rows;
    uint row_of_part = uint(row) - push.first_row; // of an earlier part a number above its rows
    if (known ? row_of_part >= push.part_rows : push.first_row > 0) return;
    uint from = known ? row_of_part * push.row_stride : 0;
    uint to = workgroup().y * push.output_strides[0] + workgroup().x * push.output_strides[1];
    for (uint i = 2 * gl_LocalInvocationID.x; i < push.features; i += 2 * EMBEDDING_WORKGROUP_SIZE) {
#ifdef QUANTISED_WEIGHT // rows of whole blocks, whose neighbours are read by fours
        vec4 four = known ? weight_load_quantised(WEIGHT_FORMAT, (from + i) & ~3u) : vec4(0);
        output_store2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0u, to + i, 1, i % 4 == 0 ? four.xy : four.zw);
#else
        float first = known ? weight_load(WEIGHT_FORMAT, from + i) : 0.0;
        if (i + 1 == push.features) {
            output_store(OUTPUT_FORMAT, to + i, first);
            continue;
        }
        float second = known ? weight_load(WEIGHT_FORMAT, from + i + 1) : 0.0;
        output_store2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0u, to + i, 1, vec2(first, second));
#endif
    }
}
