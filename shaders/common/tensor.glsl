// Template: one bound tensor of elements in a storage format, read and written as f32. 16- and 8-bit data are read from
// whole words, so no device feature is needed. What a format is, formats/ alone knows. Included once a tensor, after common/push.glsl.
//
// Before: TENSOR, the tensor's name: query declares query_words, query_load, ...
//         TENSOR_BINDING, its binding
//         TENSOR_QUANTISED, where its format may be quantised
//         TENSOR_VECTORS, where the kernel reads sixteen bytes at a time
//         TENSOR_WRITABLE, where the kernel writes it
#ifndef PUSH_GLSL
#error "common/push.glsl goes before a tensor"
#endif
#include "formats/elements.glsl"

#ifndef TENSOR_NAME
#define TENSOR_PASTE(name, suffix) name##suffix
#define TENSOR_EXPAND(name, suffix) TENSOR_PASTE(name, suffix)
#define TENSOR_NAME(suffix) TENSOR_EXPAND(TENSOR, suffix)
#endif
#define WORDS TENSOR_NAME(_words)

#ifdef TENSOR_WRITABLE
layout(set = 0, binding = TENSOR_BINDING, std430) buffer TENSOR_NAME(_buffer) { uint WORDS[]; };
#else
layout(set = 0, binding = TENSOR_BINDING, std430) readonly buffer TENSOR_NAME(_buffer) { uint WORDS[]; };
#endif

#ifdef TENSOR_QUANTISED
// A block from its first byte on, read four elements at a time.
struct TENSOR_NAME(_Quads) {
    uint begin;
};

float read_half(TENSOR_NAME(_Quads) block, uint at) {
    at += block.begin;
    return unpack_halves(WORDS[at / 4] >> ((at & 2) * 8)).x;
}

uint read_word(TENSOR_NAME(_Quads) block, uint at) {
    at += block.begin;
    uint bytes = WORDS[at / 4];
    if ((at & 2) != 0) bytes = (bytes >> 16) | (WORDS[at / 4 + 1] << 16);
    return bytes;
}

uint read_bytes(TENSOR_NAME(_Quads) block, uint begin, uint at, const uint size) {
    return read_word(block, begin + at);
}

#define BLOCK TENSOR_NAME(_Quads)
#define BYTES uint
#define NUMBERS vec4
#include "formats/blocks.glsl"

TENSOR_NAME(_Quads) TENSOR_NAME(_quads)(const uint format, uint element) {
    return TENSOR_NAME(_Quads)(base_bytes(TENSOR_BINDING) + block_of_element(format, element));
}

// (scale, minimum) of a quantised element.
vec2 TENSOR_NAME(_affine)(const uint format, uint element) {
    return affine_of(format, TENSOR_NAME(_quads)(format, element), element_of_block(format, element));
}

// Elements `element` (a multiple of 4) to `element + 3` of a quantised tensor.
vec4 TENSOR_NAME(_load_quantised)(const uint format, uint element) {
    vec4 numbers = numbers_of(format, TENSOR_NAME(_quads)(format, element), element_of_block(format, element));
    return apply_affine(format, TENSOR_NAME(_affine)(format, element), numbers);
}
#endif

float TENSOR_NAME(_load_float)(const uint format, uint element) {
    uint base = base_bytes(TENSOR_BINDING);
    const uint bytes = bytes_of_block(format);
    uint at = base + bytes * element, bits;
    if (bytes == 4)
        bits = WORDS[base / 4 + element];
    else
        bits = bitfieldExtract(WORDS[at / 4], int(at & (4 - bytes)) * 8, int(8 * bytes));
    return element_value(format, bits);
}

float TENSOR_NAME(_load)(const uint format, uint element) {
#ifdef TENSOR_QUANTISED
    if (is_quantised(format)) return TENSOR_NAME(_load_quantised)(format, element & ~3u)[element & 3u];
#endif
    return TENSOR_NAME(_load_float)(format, element);
}

// Four elements of no quantised format, `stride` apart. pairs: the first element's offset is even. Not by _load: drivers inline
// all of it, decoders too, before they drop what constants rule out.
vec4 TENSOR_NAME(_load4_floats)(const uint format, const bool pairs, uint element, const uint stride) {
    if (bytes_of_block(format) == 2 && pairs && stride == 1) {
        uint word = base_bytes(TENSOR_BINDING) / 4 + element / 2;
        return expand_halves(format, uvec2(WORDS[word], WORDS[word + 1]));
    }
    return vec4(TENSOR_NAME(_load_float)(format, element), TENSOR_NAME(_load_float)(format, element + stride),
                TENSOR_NAME(_load_float)(format, element + 2 * stride),
                TENSOR_NAME(_load_float)(format, element + 3 * stride));
}

// The same of any format; the first is a multiple of 4 if it is quantised.
vec4 TENSOR_NAME(_load4)(const uint format, const bool pairs, uint element, const uint stride) {
#ifdef TENSOR_QUANTISED
    if (is_quantised(format)) return TENSOR_NAME(_load_quantised)(format, element);
#endif
    return TENSOR_NAME(_load4_floats)(format, pairs, element, stride);
}

#ifdef TENSOR_VECTORS
layout(set = 0, binding = TENSOR_BINDING, std430) readonly buffer TENSOR_NAME(_vector_buffer) {
    uvec4 TENSOR_NAME(_vectors)[];
};

// Eight elements of 16 bits as they are stored; the first is a multiple of 8.
uvec4 TENSOR_NAME(_load8_halves)(uint element) {
    return TENSOR_NAME(_vectors)[base_bytes(TENSOR_BINDING) / 16 + element / 8];
}

#ifdef TENSOR_QUANTISED
// The same, read eight elements at a time.
struct TENSOR_NAME(_Octets) {
    TENSOR_NAME(_Quads) quads;
};

float read_half(TENSOR_NAME(_Octets) block, uint at) { return read_half(block.quads, at); }

uint read_word(TENSOR_NAME(_Octets) block, uint at) { return read_word(block.quads, at); }

uvec2 read_bytes(TENSOR_NAME(_Octets) block, uint begin, uint at, const uint size) {
    at += begin + block.quads.begin;
    uvec2 bytes = uvec2(WORDS[at / 4], WORDS[at / 4 + 1]);
    if ((at & 2) != 0) bytes = (bytes >> 16) | (uvec2(bytes.y, WORDS[at / 4 + 2]) << 16);
    return bytes;
}

#define BLOCK TENSOR_NAME(_Octets)
#define BYTES uvec2
#define NUMBERS mat2x4
#include "formats/blocks.glsl"

// The numbers of elements `element` (a multiple of 8) to `element + 7` of a quantised tensor.
mat2x4 TENSOR_NAME(_load8_numbers)(const uint format, uint element) {
    TENSOR_NAME(_Octets) block = TENSOR_NAME(_Octets)(TENSOR_NAME(_quads)(format, element));
    return numbers_of(format, block, element_of_block(format, element));
}

#ifdef QUANTISED_WEIGHT
// Elements `element` to `element + 7` and as many elements_to_second further on; element / elements_to_second is even.
void TENSOR_NAME(_load_both)(const uint format, uint element, out mat2x4 first, out mat2x4 second) {
    TENSOR_NAME(_Octets) block = TENSOR_NAME(_Octets)(TENSOR_NAME(_quads)(format, element));
    uint i = element_of_block(format, element);
    both_of(format, block, i, first, second);
    vec2 affine_of_first, affine_of_second;
    affines_of_both(format, block, i, affine_of_first, affine_of_second);
    first = apply_affine(format, affine_of_first, first);
    second = apply_affine(format, affine_of_second, second);
}
#endif

mat2x4 TENSOR_NAME(_load8_quantised)(const uint format, uint element) {
    return apply_affine(format, TENSOR_NAME(_affine)(format, element), TENSOR_NAME(_load8_numbers)(format, element));
}
#endif

// Eight elements; the first is a multiple of 8 if the format is quantised, and begins at sixteen bytes if not.
mat2x4 TENSOR_NAME(_load8)(const uint format, uint element) {
#ifdef TENSOR_QUANTISED
    if (is_quantised(format)) return TENSOR_NAME(_load8_quantised)(format, element);
#endif
    uvec4 low, high;
    if (bytes_of_block(format) == 2) {
        uvec4 halves = TENSOR_NAME(_load8_halves)(element);
        low.xy = halves.xy;
        high.xy = halves.zw;
    } else {
        uint vector = base_bytes(TENSOR_BINDING) / 16 + element / 4;
        low = TENSOR_NAME(_vectors)[vector];
        high = TENSOR_NAME(_vectors)[vector + 1];
    }
    return mat2x4(element_values(format, low), element_values(format, high));
}
#endif

#ifdef TENSOR_WRITABLE
// A value that shares its word with another invocation's (or the caller's) is written by two atomics: each touches its
// own bits only, so the result does not depend on their order.
void TENSOR_NAME(_store)(const uint format, uint element, float value) {
    uint base = base_bytes(TENSOR_BINDING);
    uint bits = element_bits(format, value);
    const uint bytes = bytes_of_block(format);
    if (bytes == 4) {
        WORDS[base / 4 + element] = bits;
        return;
    }
    uint at = base + bytes * element;
    uint shift = (at & (4 - bytes)) * 8;
    atomicAnd(WORDS[at / 4], ~(((1u << (8 * bytes)) - 1) << shift));
    atomicOr(WORDS[at / 4], bits << shift);
}

// Two neighbours. pairs: the first element's offset is even, and both belong to this invocation.
void TENSOR_NAME(_store2)(const uint format, const bool pairs, uint element, const uint stride, vec2 value) {
    if (bytes_of_block(format) == 2 && pairs && stride == 1) {
        WORDS[base_bytes(TENSOR_BINDING) / 4 + element / 2] =
            element_bits(format, value.x) | (element_bits(format, value.y) << 16);
        return;
    }
    TENSOR_NAME(_store)(format, element, value.x);
    TENSOR_NAME(_store)(format, element + stride, value.y);
}
#endif

#undef WORDS
#undef TENSOR
#undef TENSOR_BINDING
#undef TENSOR_QUANTISED
#undef TENSOR_VECTORS
#undef TENSOR_WRITABLE
