// Writes new K and V rows into their caches, converting to the storage format: a quantised one where QUANTISED_CACHE is defined,
// another where it is not, so that what appends floats compiles no encoder. Rows that would lie beyond the capacity, or on
// a page outside the pool, are dropped. Queries of the same tokens may go into other memory beside them, at the rows that they are.
//
// source [B,H,L,D], or packed [1,H,total,D] with cu_seqlens -> cache [B,H,capacity,D] at positions past ..
// past + L - 1; with KEY_HEADS the heads behind are those of V, for values, which lies as cache does. With QUERY_HEADS those are
// the first heads of source, [B,H,L,QUERY_DIM], for queries [B,H,L,QUERY_DIM]; the others begin at element `beyond`.
// Source or caches may lie in pages [pool,H,PAGE_SIZE,D], found through the block table; as a source, from token
// `first` on, and with HAS_LENGTHS only `beyond` rows further than the sequence is long. With NORM_FORMAT NORM_DIM elements of a
// row are normalised on the way (RMSNorm: Zhang and Sennrich, 2019), norm [NORM_DIM]: each invocation goes through all of them. With
// ROTATED ROTATED_DIMS are then turned by the rotary embedding of their position (Su et al., 2021). With HADAMARD, blocks of so many
// elements of a row are mixed as in layers/hadamard.comp, by each invocation for its own elements. Scales of rows are looked
// up; where the cache's are made, each invocation goes through its whole row, and the first of them writes its scale.
// frequencies [ROTATED_DIMS / 2]: turns per position, as 64-bit fixed point (low word, high word), and the factor that lengthens or
// shortens the rotated vector
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

#define TENSOR values
#define TENSOR_BINDING BINDING_APPEND_VALUES
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR queries
#define TENSOR_BINDING BINDING_APPEND_QUERIES
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR norm
#define TENSOR_BINDING BINDING_APPEND_NORM
#include "common/tensor.glsl"

#define TENSOR query_norm
#define TENSOR_BINDING BINDING_APPEND_QUERY_NORM
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

const uint QUERIES = 0, KEYS = 1, VALUES = 2; // parts of the grid

// A row on its way into the cache.
struct AppendedRow {
    uint part;
    uint source; // the element of its first dim
    uint cache;  // the same of where it goes
    uint position;
    float source_scale;
    float inverse_rms;
    uint cache_scale; // its element
};

uint dims_of(uint part) { return part == QUERIES ? QUERY_DIM : HEAD_DIM; }

uint norm_dim_of(uint part) { return part == QUERIES ? QUERY_NORM_DIM : NORM_DIM; }

bool is_normalised(AppendedRow row) {
    return row.part == QUERIES ? QUERY_NORM_FORMAT != FORMAT_NONE : row.part == KEYS && NORM_FORMAT != FORMAT_NONE;
}

bool is_rotated(AppendedRow row) { return ROTATED != ROTATED_NONE && row.part != VALUES; }

float load_source(AppendedRow row, uint dim) {
    return row.source_scale * source_load(SOURCE_FORMAT, row.source + dim * push.source_strides[3]);
}

float load_dim(AppendedRow row, uint dim) {
    float value = load_source(row, dim);
    if (!is_normalised(row)) return value;
    if (dim >= norm_dim_of(row.part)) return value;
    value *= row.inverse_rms;
    return value * (row.part == QUERIES ? query_norm_load(QUERY_NORM_FORMAT, dim) : norm_load(NORM_FORMAT, dim));
}

vec4 squares_of_four(AppendedRow row, uint dim) {
    vec4 four = row.source_scale * source_load4(SOURCE_FORMAT, true, row.source + dim, 1);
    return four * four;
}

float inverse_rms_of(AppendedRow row) {
    uint dims = norm_dim_of(row.part);
    vec4 sums = vec4(0.0);
    uint dim = 0;
    // many loads under way: the row is one chain
    for (; IN_BLOCKS != 0u && dim + 32 <= dims; dim += 32)
        for (uint i = 0; i < 32; i += 4) sums += squares_of_four(row, dim + i);
    for (; dim < dims; ++dim) {
        float value = load_source(row, dim);
        sums.x += value * value;
    }
    return inversesqrt((sums.x + sums.y + sums.z + sums.w) / float(dims) + push.epsilon);
}

// One element of the row as the rotary embedding turns it.
float load_rotated(AppendedRow row, uint dim) {
    const uint pairs = ROTATED_DIMS / 2;
    uint from = row.part == QUERIES ? QUERY_ROTATED_FROM : ROTATED_FROM;
    uint at = dim - from;
    if (dim < from || at >= ROTATED_DIMS) return load_dim(row, dim);
    bool interleaved = ROTATED == ROTATED_INTERLEAVED;
    uint pair = interleaved ? at / 2 : at % pairs;
    bool second = interleaved ? at % 2 != 0 : at >= pairs;
    uint partner = from + (interleaved ? at ^ 1u : (second ? at - pairs : at + pairs));
    uint word = base_bytes(BINDING_APPEND_FREQUENCIES) / 4 + 3 * pair;
    vec2 rotation =
        rotation_of(row.position, uvec3(frequency_words[word], frequency_words[word + 1], frequency_words[word + 2]));
    return load_dim(row, dim) * rotation.x + load_dim(row, partner) * (second ? rotation.y : -rotation.y);
}

float load_unmixed(AppendedRow row, uint dim) { return is_rotated(row) ? load_rotated(row, dim) : load_dim(row, dim); }

// An entry of the Hadamard matrix, without its scale.
float sign_of(uint row, uint column) { return (bitCount(row & column) & 1) != 0 ? -1.0 : 1.0; }

float load_element(AppendedRow row, uint dim) {
    if (HADAMARD == 0u || row.part == QUERIES) return load_unmixed(row, dim);
    uint own = dim % HADAMARD, begin = dim - own;
    float sum = 0.0;
    for (uint i = 0; i < HADAMARD; ++i) sum += sign_of(own, i) * load_unmixed(row, begin + i);
    return push.scale * sum;
}

#ifdef QUANTISED_CACHE
layout(set = 0, binding = BINDING_APPEND_CACHE_SCALES, std430) buffer CacheScalesBuffer { float cache_scales[]; };
layout(set = 0, binding = BINDING_APPEND_VALUE_SCALES, std430) buffer ValueScalesBuffer { float value_scales[]; };

const uint ELEMENTS = QUANTISED_BLOCK; // of an invocation

void store_word(uint part, uint word, uint bits) {
    if (part == VALUES)
        values_words[word] = bits;
    else
        cache_words[word] = bits;
}

// Half a word that the block shares with its neighbour, whose invocation writes the other half: two atomics.
void store_half(uint part, uint byte_offset, uint bits) {
    uint shift = (byte_offset & 2) * 8, word = byte_offset / 4;
    if (part == VALUES) {
        atomicAnd(values_words[word], 0xffff0000u >> shift);
        atomicOr(values_words[word], bits << shift);
    } else {
        atomicAnd(cache_words[word], 0xffff0000u >> shift);
        atomicOr(cache_words[word], bits << shift);
    }
}

// A block is whole halves: all but its first and last lie in words of its own.
void store_block(uint part, const uint format, uint byte_offset, EncodedBlock block) {
    const uint halves = bytes_of_block(format) / 2;
    uint word = byte_offset / 4;
    bool shifted = (byte_offset & 2) != 0;
    if (shifted) {
        store_half(part, byte_offset, block.words[0] & 0xffffu);
        for (uint i = 1; 2 * i < halves; ++i)
            store_word(part, word + i, (block.words[i - 1] >> 16) | (block.words[i] << 16));
    } else {
        for (uint i = 0; i < halves / 2; ++i) store_word(part, word + i, block.words[i]);
    }
    uint last = block.words[(halves - 1) / 2];
    if (shifted == (halves % 2 == 0)) store_half(part, byte_offset + 2 * (halves - 1), shifted ? last >> 16 : last);
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

// The scale of the row, by its first block written where it is made.
float scale_of(AppendedRow row, uint dim) {
    const bool made = CACHE_SCALES == CACHE_SCALES_MADE;
    float scale = made ? make_scale(row) : 0.0;
    if (row.part == VALUES) {
        uint element = base_bytes(BINDING_APPEND_VALUE_SCALES) / 4 + row.cache_scale;
        if (!made) return value_scales[element];
        if (dim == 0) value_scales[element] = scale;
    } else {
        uint element = base_bytes(BINDING_APPEND_CACHE_SCALES) / 4 + row.cache_scale;
        if (!made) return cache_scales[element];
        if (dim == 0) cache_scales[element] = scale;
    }
    return scale;
}

// Divides a block by the scale of its row; by 0 nothing is left of it.
void scale_block(AppendedRow row, uint dim, inout float values[QUANTISED_BLOCK]) {
    if (CACHE_SCALES == CACHE_SCALES_NONE) return;
    float scale = scale_of(row, dim);
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
    uint base = row.part == VALUES ? base_bytes(BINDING_APPEND_VALUES) : base_bytes(BINDING_APPEND_CACHE);
    uint to = row.cache + dim * push.cache_strides[3];
    store_block(row.part, CACHE_FORMAT, base + block_of_element(CACHE_FORMAT, to), encode_block(CACHE_FORMAT, values));
}
#else
const uint ELEMENTS = IN_BLOCKS != 0u ? 4 : 2;

// Two neighbours of a row from `dim` on. pairs: none of their words is shared.
void store_neighbours(AppendedRow row, const bool pairs, uint dim, vec2 numbers) {
    uint to = row.cache + dim * (row.part == QUERIES ? 1 : push.cache_strides[3]);
    if (row.part == QUERIES)
        queries_store2(SOURCE_FORMAT, pairs || QUERY_PAIRS != 0u, to, 1, numbers);
    else if (row.part == VALUES)
        values_store2(CACHE_FORMAT, pairs || CACHE_PAIRS != 0u, to, pairs ? 1 : push.cache_strides[3], numbers);
    else
        cache_store2(CACHE_FORMAT, pairs || CACHE_PAIRS != 0u, to, pairs ? 1 : push.cache_strides[3], numbers);
}

void append_four(AppendedRow row, uint dim) {
    vec4 four;
    if (!is_rotated(row) && !is_normalised(row) && (HADAMARD == 0u || row.part == QUERIES))
        four = row.source_scale * source_load4(SOURCE_FORMAT, true, row.source + dim, 1);
    else
        for (uint i = 0; i < 4; ++i) four[i] = load_element(row, dim + i);
    store_neighbours(row, true, dim, four.xy);
    store_neighbours(row, true, dim + 2, four.zw);
}

// The last element of a row of an odd number of them.
void store_last(AppendedRow row, uint dim, float number) {
    if (row.part == QUERIES)
        queries_store(SOURCE_FORMAT, row.cache + dim, number);
    else if (row.part == VALUES)
        values_store(CACHE_FORMAT, row.cache + dim * push.cache_strides[3], number);
    else
        cache_store(CACHE_FORMAT, row.cache + dim * push.cache_strides[3], number);
}

void append_pair(AppendedRow row, uint dim) {
    float number = load_element(row, dim);
    if (dim + 1 == dims_of(row.part))
        store_last(row, dim, number);
    else
        store_neighbours(row, false, dim, vec2(number, load_element(row, dim + 1)));
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

uint part_of(uint head) {
    if (QUERY_HEADS != 0u && head < QUERY_HEADS) return QUERIES;
    return KEY_HEADS != 0u && head - QUERY_HEADS >= KEY_HEADS ? VALUES : KEYS;
}

void main() {
    uint head = workgroup().y;
    uint batch = workgroup().z;
    AppendedRow row;
    row.part = part_of(head);
    uint items = (dims_of(row.part) + ELEMENTS - 1) / ELEMENTS; // of a row
    uint invocation = workgroup().x * ELEMENTWISE_WORKGROUP_SIZE + gl_LocalInvocationID.x;
    uint token = invocation / items;
    uint dim = invocation % items * ELEMENTS;
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
    row.position = past + token;
    if (token >= push.positions) return;
    if (row.part != QUERIES && row.position >= push.capacity) return;
    if (HAS_LENGTHS != 0u) {
        uint length = uint(max(lengths[base_bytes(BINDING_APPEND_LENGTHS) / 4 + batch], 0));
        if (push.first + token >= length + push.beyond) return;
    }

    if (PACKED == PACKED_AND_BEYOND)
        source = uvec2(0, min(packed_rows(batch, push.source_total).x + source.y, push.source_total - 1));
    uvec2 place = row.part == QUERIES ? source : uvec2(batch, row.position);
    if (PAGED != PAGED_NONE && row.part != QUERIES) {
        uint paged = PAGED == PAGED_SOURCE ? source.y : row.position;
        uint page = page_of(batch, paged);
        if (PAGED == PAGED_CACHE && page >= push.pool_pages) return;
        uvec2 in_page = uvec2(min(page, push.pool_pages - 1), paged % PAGE_SIZE);
        if (PAGED == PAGED_SOURCE) source = in_page; // of a page outside the pool some row: keys there are hidden
        if (PAGED == PAGED_CACHE) place = in_page;
    }
    uint head_of_cache = head;
    row.source = source.x * push.source_strides[0] + head * push.source_strides[1] + source.y * push.source_strides[2];
    if (row.part != QUERIES) {
        head_of_cache -= QUERY_HEADS;
        if (QUERY_HEADS != 0u) row.source += push.beyond - QUERY_HEADS * push.source_strides[1];
        if (row.part == VALUES) head_of_cache -= KEY_HEADS;
        row.cache =
            place.x * push.cache_strides[0] + head_of_cache * push.cache_strides[1] + place.y * push.cache_strides[2];
    } else {
        row.cache = place.x * push.source_scale_strides[0] + head * push.source_scale_strides[1] +
                    place.y * push.source_scale_strides[2];
    }
    row.source_scale = 1.0;
    if (SOURCE_SCALED != 0u)
        row.source_scale =
            source_scales[base_bytes(BINDING_APPEND_SOURCE_SCALES) / 4 + source.x * push.source_scale_strides[0] +
                          head * push.source_scale_strides[1] + source.y * push.source_scale_strides[2]];
    row.inverse_rms = is_normalised(row) ? inverse_rms_of(row) : 1.0;
    row.cache_scale = place.x * push.cache_scale_strides[0] + head_of_cache * push.cache_scale_strides[1] +
                      place.y * push.cache_scale_strides[2];
    append_elements(row, dim);
}
