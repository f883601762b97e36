// Writes new K or V rows into a cache, converting to its storage format. Rows that would lie beyond the capacity are
// dropped.
//
// source [B,H,L,D] -> cache [B,H,capacity,D] at positions past .. past + L - 1
// grid: (tiles of L * ceil(D / 2), H, B), two neighbouring elements an invocation: they may share a word
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface.h"

APPEND_CONSTANTS(VKATTN_CONSTANT)

layout(push_constant, std430) uniform PushBlock { AppendPush push; };

#include "lib/bases.glsl"

layout(set = 0, binding = BINDING_APPEND_SOURCE, std430) readonly buffer SourceBuffer { uint source_words[]; };
layout(set = 0, binding = BINDING_APPEND_CACHE, std430) buffer CacheBuffer { uint cache_words[]; };
layout(set = 0, binding = BINDING_APPEND_PAST_LENGTHS, std430) readonly buffer PastLengthsBuffer {
    int past_lengths[];
};

#define WORDS source_words
#define BINDING BINDING_APPEND_SOURCE
#define LOAD load_source
#define LOAD4 load_source4
#include "lib/load.glsl"

#include "lib/round.glsl"

#define WORDS cache_words
#define BINDING BINDING_APPEND_CACHE
#define STORE store_cache
#define STORE2 store_cache2
#include "lib/store.glsl"

void main() {
    uint pairs_of_row = (push.head_dim + 1) / 2;
    uint token = gl_GlobalInvocationID.x / pairs_of_row;
    uint dim = gl_GlobalInvocationID.x % pairs_of_row * 2;
    uint head = gl_WorkGroupID.y;
    uint batch = gl_WorkGroupID.z;
    uint past = push.offset;
    if (HAS_PAST_LENGTHS != 0u) past = uint(max(past_lengths[base_bytes(BINDING_APPEND_PAST_LENGTHS) / 4 + batch], 0));
    uint position = past + token;
    if (token >= push.positions || position >= push.capacity) return;

    uint from = batch * push.source_strides[0] + head * push.source_strides[1] + token * push.source_strides[2] +
                dim * push.source_strides[3];
    uint to = batch * push.cache_strides[0] + head * push.cache_strides[1] + position * push.cache_strides[2] +
              dim * push.cache_strides[3];
    float first = load_source(SOURCE_FORMAT, from);
    if (dim + 1 == push.head_dim) {
        store_cache(CACHE_FORMAT, to, first);
        return;
    }
    float second = load_source(SOURCE_FORMAT, from + push.source_strides[3]);
    if (CACHE_PAIRS != 0u)
        store_cache2(CACHE_FORMAT, true, to, 1, vec2(first, second));
    else {
        store_cache(CACHE_FORMAT, to, first);
        store_cache(CACHE_FORMAT, to + push.cache_strides[3], second);
    }
}
