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

const uint ROWS_AT_ONCE = 4; // whose loads are under way together

shared uint same[TOKENS / 32]; // bits: which of the tokens that are looked at are the workgroup's
shared uint positions[TOKENS]; // of those

int token(uint position) {
    uint element = position / push.len * push.tokens_strides[0] + position % push.len * push.tokens_strides[1];
    return tokens[base_bytes(BINDING_EMBEDDING_BACKWARD_TOKENS) / 4 + element];
}

uint feature_of(uint k) {
    return workgroup().x * EMBEDDING_BACKWARD_FEATURES +
           4 * (gl_LocalInvocationID.x + k * EMBEDDING_BACKWARD_WORKGROUP_SIZE);
}

// Finds those of the TOKENS positions from `first` to `end` that hold the token, in their order. Returns how many.
uint find(int wanted, uint first, uint end) {
    barrier(); // what was found before has been read
    if (gl_LocalInvocationID.x < TOKENS / 32) same[gl_LocalInvocationID.x] = 0;
    barrier();
    uint bit = TOKENS_OF_ONE * gl_LocalInvocationID.x, own = 0;
    [[unroll]] for (uint k = 0; k < TOKENS_OF_ONE; ++k) {
        uint position = first + bit + k;
        if (token(min(position, end - 1)) == wanted && position < end) own |= 1u << k;
    }
    if (own != 0) atomicOr(same[bit / 32], own << bit % 32);
    barrier();
    uint count = 0, before = 0;
    for (uint i = 0; i < TOKENS / 32; ++i) {
        uint below = i < bit / 32 ? 0xffffffffu : i == bit / 32 ? (1u << bit % 32) - 1 : 0;
        before += bitCount(same[i] & below);
        count += bitCount(same[i]);
    }
    for (; own != 0; own &= own - 1) positions[before++] = first + bit + findLSB(own);
    barrier();
    return count;
}

vec4 d_output_four(uint from, uint i) {
    if (IN_FOURS != 0u) return d_output_load4(D_OUTPUT_FORMAT, true, from + min(i, push.features - 4), 1);
    vec4 four = vec4(0.0);
    for (uint j = 0; j < 4; ++j)
        if (i + j < push.features) four[j] = d_output_load(D_OUTPUT_FORMAT, from + i + j);
    return four;
}

// One after the other; past the last that once more is loaded.
void add_positions(uint count, inout vec4 sums[FOURS]) {
    for (uint first = 0; first < count; first += ROWS_AT_ONCE) {
        vec4 fours[ROWS_AT_ONCE][FOURS];
        [[unroll]] for (uint row = 0; row < ROWS_AT_ONCE; ++row) {
            uint position = positions[min(first + row, count - 1)];
            uint from = position / push.len * push.d_output_strides[0] + position % push.len * push.d_output_strides[1];
            [[unroll]] for (uint k = 0; k < FOURS; ++k) fours[row][k] = d_output_four(from, feature_of(k));
        }
        [[unroll]] for (uint row = 0; row < ROWS_AT_ONCE; ++row) [[unroll]] for (uint k = 0; k < FOURS; ++k) sums[k] =
            first + row < count ? sums[k] + fours[row][k] : sums[k];
    }
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
    bool is_first = true; // else the row is another position's
    for (uint first = 0; is_first && first < own; first += TOKENS) is_first = find(wanted, first, own) == 0;
    if (!is_first) return;
    if (ACCUMULATES != 0u) [[unroll]]
        for (uint k = 0; k < FOURS; ++k)
            for (uint j = 0; j < 4; ++j)
                if (feature_of(k) + j < push.features)
                    sums[k][j] = d_weight_load(D_WEIGHT_FORMAT, row * push.row_stride + feature_of(k) + j);
    for (uint first = own; first < push.positions; first += TOKENS)
        add_positions(find(wanted, first, push.positions), sums);
    store_row(row, sums);
}
