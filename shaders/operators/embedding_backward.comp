// d_weight[r,:] = the sum of d_output[b,l,:] over the positions whose token is r, in the order of the positions.
//
// tokens I32 [B,L], d_output [B,L,N] -> d_weight [rows,N], which comes in parts, as embedding's weight does
// WRITES_ZEROS: every row of the part; grid: (parts of a row, rows). Then the rows of tokens: grid: (parts of a row, positions); the
// workgroup of a token's first position adds up its row. An invocation owns fours of a part's features.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

#include "interface/embedding_backward.h"

EMBEDDING_BACKWARD_CONSTANTS(VKATTN_CONSTANT)

#define PUSH EmbeddingBackwardPush
#include "common/push.glsl"

#define TENSOR d_output
#define TENSOR_BINDING BINDING_EMBEDDING_BACKWARD_D_OUTPUT
#include "common/tensor.glsl"

#define TENSOR d_weight
#define TENSOR_BINDING BINDING_EMBEDDING_BACKWARD_D_WEIGHT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_EMBEDDING_BACKWARD_TOKENS, std430) readonly buffer TokensBuffer { int tokens[]; };

const uint TOKENS = EMBEDDING_BACKWARD_TOKENS, TOKENS_OF_ONE = TOKENS / EMBEDDING_BACKWARD_WORKGROUP_SIZE;
const uint FOURS = EMBEDDING_BACKWARD_FEATURES / (4 * EMBEDDING_BACKWARD_WORKGROUP_SIZE);

shared uint same[TOKENS / 32]; // bits: which of the tokens that are looked at are the workgroup's

int token(uint position) {
    uint element = position / push.len * push.tokens_strides[0] + position % push.len * push.tokens_strides[1];
    return tokens[base_bytes(BINDING_EMBEDDING_BACKWARD_TOKENS) / 4 + element];
}

uint feature_of(uint k) {
    return workgroup().x * EMBEDDING_BACKWARD_FEATURES +
           4 * (gl_LocalInvocationID.x + k * EMBEDDING_BACKWARD_WORKGROUP_SIZE);
}

// Marks those of the TOKENS positions from `first` to `end` that hold the token.
void find(int wanted, uint first, uint end) {
    barrier(); // what was found before has been read
    if (gl_LocalInvocationID.x < TOKENS / 32) same[gl_LocalInvocationID.x] = 0;
    barrier();
    uint own = 0;
    [[unroll]] for (uint k = 0; k < TOKENS_OF_ONE; ++k) {
        uint position = first + TOKENS_OF_ONE * gl_LocalInvocationID.x + k;
        if (token(min(position, end - 1)) == wanted && position < end) own |= 1u << k;
    }
    uint bit = TOKENS_OF_ONE * gl_LocalInvocationID.x;
    if (own != 0) atomicOr(same[bit / 32], own << bit % 32);
    barrier();
}

bool any_found() {
    uint found = 0;
    for (uint i = 0; i < TOKENS / 32; ++i) found |= same[i];
    return found != 0;
}

vec4 d_output_four(uint from, uint i) {
    if (IN_FOURS != 0u) return d_output_load4(D_OUTPUT_FORMAT, true, from + min(i, push.features - 4), 1);
    vec4 four = vec4(0.0);
    for (uint j = 0; j < 4; ++j)
        if (i + j < push.features) four[j] = d_output_load(D_OUTPUT_FORMAT, from + i + j);
    return four;
}

void add_position(uint position, inout vec4 sums[FOURS]) {
    uint from = position / push.len * push.d_output_strides[0] + position % push.len * push.d_output_strides[1];
    vec4 fours[FOURS];
    [[unroll]] for (uint k = 0; k < FOURS; ++k) fours[k] = d_output_four(from, feature_of(k));
    [[unroll]] for (uint k = 0; k < FOURS; ++k) sums[k] += fours[k];
}

void store_row(uint row, vec4 sums[FOURS]) {
    [[unroll]] for (uint k = 0; k < FOURS; ++k) {
        uint i = feature_of(k), to = row * push.row_stride + i;
        if (IN_FOURS != 0u && i < push.features) {
            d_weight_store2(D_WEIGHT_FORMAT, true, to, 1, sums[k].xy);
            d_weight_store2(D_WEIGHT_FORMAT, true, to + 2, 1, sums[k].zw);
        } else {
            for (uint j = 0; j < 4; ++j)
                if (i + j < push.features) d_weight_store(D_WEIGHT_FORMAT, to + j, sums[k][j]);
        }
    }
}

void main() {
    vec4 sums[FOURS];
    [[unroll]] for (uint k = 0; k < FOURS; ++k) sums[k] = vec4(0.0);
    if (WRITES_ZEROS != 0u) {
        store_row(workgroup().y, sums);
        return;
    }
    uint own = workgroup().y;
    int wanted = token(own);
    uint row = uint(wanted) - push.first_row;
    if (wanted < 0 || row >= push.part_rows) return;
    for (uint first = 0; first < own; first += TOKENS) {
        find(wanted, first, own);
        if (any_found()) return; // it is that position's
    }
    if (ACCUMULATES != 0u) [[unroll]]
        for (uint k = 0; k < FOURS; ++k)
            for (uint j = 0; j < 4; ++j)
                if (feature_of(k) + j < push.features)
                    sums[k][j] = d_weight_load(D_WEIGHT_FORMAT, row * push.row_stride + feature_of(k) + j);
    for (uint first = own; first < push.positions; first += TOKENS) {
        find(wanted, first, push.positions);
        for (uint i = 0; i < TOKENS / 32; ++i)
            for (uint left = same[i]; left != 0; left &= left - 1) add_position(first + 32 * i + findLSB(left), sums);
    }
    store_row(row, sums);
}
