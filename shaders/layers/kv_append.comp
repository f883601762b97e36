// Writes new K or V rows into a cache, converting to its storage format: a quantised one where QUANTISED_CACHE is defined,
// another where it is not, so that what appends floats compiles no encoder. Rows that would lie beyond the capacity, or on
// a page outside the pool, are dropped.
//
// source [B,H,L,D], or packed [1,H,total,D] with cu_seqlens -> cache [B,H,capacity,D] at positions past ..
// past + L - 1. Either may lie in pages [pool,H,PAGE_SIZE,D], found through the block table; as a source, from token
// `first` on, and with HAS_LENGTHS only `beyond` rows further than the sequence is long. With NORM_FORMAT rows are normalised
// on the way (RMSNorm: Zhang and Sennrich, 2019), norm [D]: each invocation goes through the whole of its row. With ROTATED they are
// then turned by the rotary embedding of their position; frequencies as in layers/rope.comp. With HADAMARD, blocks of so many
// elements of a row are mixed as in layers/hadamard.comp, by each invocation for its own elements. Scales of rows are looked
// up; where the cache's are made, each invocation goes through its whole row, and the first of them writes its scale.
// grid: (tiles of L * ceil(D / 2), H, B), two neighbouring elements an invocation: they may share a word; four with
// IN_BLOCKS; into quantised caches (tiles of L * D / 32, H, B), a block an invocation. PACKED_SEQUENCES: total and 1 in
// place of L and B, so that the cost follows the tokens
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface/kv_append.h"

APPEND_CONSTANTS(VKATTN_CONSTANT)

#define PUSH AppendPush
#define CU_SEQLENS_BINDING BINDING_APPEND_CU_SEQLENS
#ifdef QUANTISED_CACHE
#include "formats/encode.glsl"
#endif
#include "layers/packed.glsl"
#include "layers/rotation.glsl"

#define TENSOR source
#define TENSOR_BINDING BINDING_APPEND_SOURCE
#define TENSOR_QUANTISED
#include "common/tensor.glsl"

#define TENSOR cache
#define TENSOR_BINDING BINDING_APPEND_CACHE
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR norm
#define TENSOR_BINDING BINDING_APPEND_NORM
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_APPEND_PAST_LENGTHS, std430) readonly buffer PastLengthsBuffer {
    int past_lengths[];
};
layout(set = 0, binding = BINDING_APPEND_BLOCK_TABLE, std430) readonly buffer BlockTableBuffer { int block_table[]; };
layout(set = 0, binding = BINDING_APPEND_LENGTHS, std430) readonly buffer LengthsBuffer { int lengths[]; };
layout(set = 0, binding = BINDING_APPEND_FREQUENCIES, std430) readonly buffer FrequencyBuffer {
    uint frequency_words[];
};

layout(set = 0, binding = BINDING_APPEND_SOURCE_SCALES, std430) readonly buffer SourceScalesBuffer {
    float source_scales[];
};

// A row on its way into the cache.
struct AppendedRow {
    uint source; // the element of its first dim
    uint cache;
    uint position;
    float source_scale; // and that of its norm
    uint cache_scale;   // its element
};

float load_dim(AppendedRow row, uint dim) {
    float value = row.source_scale * source_load(SOURCE_FORMAT, row.source + dim * push.source_strides[3]);
    return NORM_FORMAT == FORMAT_NONE ? value : value * norm_load(NORM_FORMAT, dim);
}

float inverse_rms(AppendedRow row) {
    float sum = 0.0;
    for (uint dim = 0; dim < HEAD_DIM; ++dim) {
        float value = row.source_scale * source_load(SOURCE_FORMAT, row.source + dim * push.source_strides[3]);
        sum += value * value;
    }
    return inversesqrt(sum / float(HEAD_DIM) + push.epsilon);
}

// One element of the row as the rotary embedding turns it.
float load_rotated(AppendedRow row, uint dim) {
    const uint pairs = HEAD_DIM / 2;
    bool interleaved = ROTATED == ROTATED_INTERLEAVED;
    uint pair = interleaved ? dim / 2 : dim % pairs;
    bool second = interleaved ? dim % 2 != 0 : dim >= pairs;
    uint partner = interleaved ? dim ^ 1u : (second ? dim - pairs : dim + pairs);
    uint word = base_bytes(BINDING_APPEND_FREQUENCIES) / 4 + 3 * pair;
    vec2 rotation =
        rotation_of(row.position, uvec3(frequency_words[word], frequency_words[word + 1], frequency_words[word + 2]));
    return load_dim(row, dim) * rotation.x + load_dim(row, partner) * (second ? rotation.y : -rotation.y);
}

float load_unmixed(AppendedRow row, uint dim) {
    return ROTATED == ROTATED_NONE ? load_dim(row, dim) : load_rotated(row, dim);
}

// An entry of the Hadamard matrix, without its scale.
float sign_of(uint row, uint column) { return (bitCount(row & column) & 1) != 0 ? -1.0 : 1.0; }

float load_element(AppendedRow row, uint dim) {
    if (HADAMARD == 0u) return load_unmixed(row, dim);
    uint own = dim % HADAMARD, begin = dim - own;
    float sum = 0.0;
    for (uint i = 0; i < HADAMARD; ++i) sum += sign_of(own, i) * load_unmixed(row, begin + i);
    return push.scale * sum;
}

#ifdef QUANTISED_CACHE
layout(set = 0, binding = BINDING_APPEND_CACHE_SCALES, std430) buffer CacheScalesBuffer { float cache_scales[]; };

const uint ELEMENTS = QUANTISED_BLOCK; // of an invocation

// Half a word that the block shares with its neighbour, whose invocation writes the other half: two atomics.
void store_half(uint byte_offset, uint bits) {
    uint shift = (byte_offset & 2) * 8;
    atomicAnd(cache_words[byte_offset / 4], 0xffff0000u >> shift);
    atomicOr(cache_words[byte_offset / 4], bits << shift);
}

// A block is whole halves: all but its first and last lie in words of its own.
void store_block(const uint format, uint byte_offset, EncodedBlock block) {
    const uint halves = bytes_of_block(format) / 2;
    uint word = byte_offset / 4;
    bool shifted = (byte_offset & 2) != 0;
    if (shifted) {
        store_half(byte_offset, block.words[0] & 0xffffu);
        for (uint i = 1; 2 * i < halves; ++i)
            cache_words[word + i] = (block.words[i - 1] >> 16) | (block.words[i] << 16);
    } else {
        for (uint i = 0; i < halves / 2; ++i) cache_words[word + i] = block.words[i];
    }
    uint last = block.words[(halves - 1) / 2];
    if (shifted == (halves % 2 == 0)) store_half(byte_offset + 2 * (halves - 1), shifted ? last >> 16 : last);
}

// The elements of a quantised block, of HADAMARD elements that are mixed: first with those of the other blocks at the same
// places, then with each other.
void load_mixed(AppendedRow row, uint dim, out float values[QUANTISED_BLOCK]) {
    uint own = dim % HADAMARD / QUANTISED_BLOCK, begin = dim - dim % HADAMARD;
    for (uint i = 0; i < QUANTISED_BLOCK; ++i) values[i] = 0.0;
    for (uint other = 0; other < HADAMARD / QUANTISED_BLOCK; ++other) {
        float scale = push.scale * sign_of(own, other);
        for (uint i = 0; i < QUANTISED_BLOCK; ++i)
            values[i] += scale * load_unmixed(row, begin + other * QUANTISED_BLOCK + i);
    }
    for (uint bit = 1; bit < QUANTISED_BLOCK; bit *= 2)
        for (uint i = 0; i < QUANTISED_BLOCK; ++i) {
            if ((i & bit) != 0) continue;
            float a = values[i], b = values[i + bit];
            values[i] = a + b;
            values[i + bit] = a - b;
        }
}

void load_block(AppendedRow row, uint dim, out float values[QUANTISED_BLOCK]) {
    if (HADAMARD != 0u)
        load_mixed(row, dim, values);
    else
        for (uint i = 0; i < QUANTISED_BLOCK; ++i) values[i] = load_unmixed(row, dim + i);
}

const float LEAST_SCALE = 1.17549435e-38; // whose inverse is finite

// By which the row's largest finite element becomes the type's largest number.
float make_scale(AppendedRow row) {
    uint largest = 0u;
    for (uint dim = 0; dim < HEAD_DIM; dim += QUANTISED_BLOCK) {
        float values[QUANTISED_BLOCK];
        load_block(row, dim, values);
        for (uint i = 0; i < QUANTISED_BLOCK; ++i) {
            uint magnitude = magnitude_bits(values[i]);
            largest = magnitude < INFINITY_BITS ? max(largest, magnitude) : largest;
        }
    }
    float scale = divide(uintBitsToFloat(largest), largest_float8(CACHE_FORMAT));
    return scale < LEAST_SCALE ? 0.0 : scale;
}

// Divides a block by the scale of its row; by 0 nothing is left of it.
void scale_block(AppendedRow row, uint dim, inout float values[QUANTISED_BLOCK]) {
    if (CACHE_SCALES == CACHE_SCALES_NONE) return;
    uint element = base_bytes(BINDING_APPEND_CACHE_SCALES) / 4 + row.cache_scale;
    float scale = CACHE_SCALES == CACHE_SCALES_MADE ? make_scale(row) : cache_scales[element];
    if (CACHE_SCALES == CACHE_SCALES_MADE && dim == 0) cache_scales[element] = scale;
    float inverse = abs(scale) >= LEAST_SCALE ? divide(1.0, scale) : 0.0;
    for (uint i = 0; i < QUANTISED_BLOCK; ++i) {
        precise float scaled = values[i] * inverse;
        values[i] = scaled;
    }
}

void append_elements(AppendedRow row, uint dim) {
    float values[QUANTISED_BLOCK];
    load_block(row, dim, values);
    scale_block(row, dim, values);
    uint to = row.cache + dim * push.cache_strides[3];
    store_block(CACHE_FORMAT, base_bytes(BINDING_APPEND_CACHE) + block_of_element(CACHE_FORMAT, to),
                encode_block(CACHE_FORMAT, values));
}
#else
const uint ELEMENTS = IN_BLOCKS != 0u ? 4 : 2;

void append_four(AppendedRow row, uint dim) {
    vec4 four;
    if (ROTATED == ROTATED_NONE && HADAMARD == 0u && NORM_FORMAT == FORMAT_NONE)
        four = row.source_scale * source_load4(SOURCE_FORMAT, true, row.source + dim, 1);
    else
        for (uint i = 0; i < 4; ++i) four[i] = load_element(row, dim + i);
    cache_store2(CACHE_FORMAT, true, row.cache + dim, 1, four.xy);
    cache_store2(CACHE_FORMAT, true, row.cache + dim + 2, 1, four.zw);
}

void append_pair(AppendedRow row, uint dim) {
    float value = load_element(row, dim);
    uint to = row.cache + dim * push.cache_strides[3];
    if (dim + 1 == HEAD_DIM) {
        cache_store(CACHE_FORMAT, to, value);
        return;
    }
    cache_store2(CACHE_FORMAT, CACHE_PAIRS != 0u, to, push.cache_strides[3], vec2(value, load_element(row, dim + 1)));
}

void append_elements(AppendedRow row, uint dim) {
    if (IN_BLOCKS != 0u)
        append_four(row, dim);
    else
        append_pair(row, dim);
}
#endif

// Where the block table says that a position's page lies.
uint page_of(uint batch, uint position) {
    uint entry = batch * push.table_pages + min(position / PAGE_SIZE, push.table_pages - 1);
    return uint(block_table[base_bytes(BINDING_APPEND_BLOCK_TABLE) / 4 + entry]);
}

void main() {
    const uint items = (HEAD_DIM + ELEMENTS - 1) / ELEMENTS; // of a row
    uint invocation = workgroup().x * ELEMENTWISE_WORKGROUP_SIZE + gl_LocalInvocationID.x;
    uint token = invocation / items;
    uint dim = invocation % items * ELEMENTS;
    uint head = workgroup().y;
    uint batch = workgroup().z;
    uvec2 source = uvec2(batch, push.first + token);
    if (PACKED == PACKED_SEQUENCES) {
        if (token >= push.source_total) return;
        PackedToken packed = token_of_row(token, push.sequences, push.source_total);
        if (!packed.exists) return;
        source = uvec2(0, token);
        batch = packed.sequence;
        token = packed.token;
    }
    uint past = push.offset;
    if (HAS_PAST_LENGTHS != 0u) past = uint(max(past_lengths[base_bytes(BINDING_APPEND_PAST_LENGTHS) / 4 + batch], 0));
    uint position = past + token;
    if (token >= push.positions || position >= push.capacity) return;
    if (HAS_LENGTHS != 0u) {
        uint length = uint(max(lengths[base_bytes(BINDING_APPEND_LENGTHS) / 4 + batch], 0));
        if (push.first + token >= length + push.beyond) return;
    }

    if (PACKED == PACKED_AND_BEYOND)
        source = uvec2(0, min(packed_rows(batch, push.source_total).x + source.y, push.source_total - 1));
    uvec2 place = uvec2(batch, position);
    if (PAGED != PAGED_NONE) {
        uint paged = PAGED == PAGED_SOURCE ? source.y : position;
        uint page = page_of(batch, paged);
        if (PAGED == PAGED_CACHE && page >= push.pool_pages) return;
        uvec2 row = uvec2(min(page, push.pool_pages - 1), paged % PAGE_SIZE);
        if (PAGED == PAGED_SOURCE) source = row; // of a page outside the pool some row: keys there are hidden
        if (PAGED == PAGED_CACHE) place = row;
    }
    AppendedRow row;
    row.source = source.x * push.source_strides[0] + head * push.source_strides[1] + source.y * push.source_strides[2];
    row.cache = place.x * push.cache_strides[0] + head * push.cache_strides[1] + place.y * push.cache_strides[2];
    row.position = position;
    row.source_scale = 1.0;
    if (SOURCE_SCALED != 0u)
        row.source_scale =
            source_scales[base_bytes(BINDING_APPEND_SOURCE_SCALES) / 4 + source.x * push.source_scale_strides[0] +
                          head * push.source_scale_strides[1] + source.y * push.source_scale_strides[2]];
    if (NORM_FORMAT != FORMAT_NONE) row.source_scale *= inverse_rms(row);
    row.cache_scale = place.x * push.cache_scale_strides[0] + head * push.cache_scale_strides[1] +
                      place.y * push.cache_scale_strides[2];
    append_elements(row, dim);
}
