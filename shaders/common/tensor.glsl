// Template: one bound tensor of elements in a storage format, read and written as f32. 16- and 8-bit data are read from
// whole words, so no device feature is needed. Included once a tensor, after common/push.glsl.
//
// Before: TENSOR, the tensor's name: query declares query_words, query_load, ...
//         TENSOR_BINDING, its binding
//         TENSOR_QUANTISED, where its format may be quantised
//         TENSOR_VECTORS, where the kernel reads sixteen bytes at a time
//         TENSOR_WRITABLE, where the kernel writes it
#ifndef PUSH_GLSL
#error "common/push.glsl goes before a tensor"
#endif
#include "common/halves.glsl"
#include "common/quantised.glsl"
#include "common/round.glsl"

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
// Elements `element` (a multiple of 4) to `element + 3` of a quantised tensor.
vec4 TENSOR_NAME(_load_quantised)(const uint format, uint element) {
    uint block = base_bytes(TENSOR_BINDING) + quantised_block(format, element), i = element % QUANTISED_BLOCK;
    uint at = block + quantised_byte(format, i);
    uint bytes = WORDS[at / 4];
    if ((at & 2) != 0) bytes = (bytes >> 16) | (WORDS[at / 4 + 1] << 16);
    return quantised_scale(WORDS[block / 4], block) * quantised_values(format, bytes, i);
}
#endif

float TENSOR_NAME(_load)(const uint format, uint element) {
#ifdef TENSOR_QUANTISED
    if (is_quantised(format)) return TENSOR_NAME(_load_quantised)(format, element & ~3u)[element & 3u];
#endif
    uint base = base_bytes(TENSOR_BINDING);
    if (format == FORMAT_F32) return uintBitsToFloat(WORDS[base / 4 + element]);
    uint byte_offset = base + 2 * element;
    uint half_bits = bitfieldExtract(WORDS[byte_offset / 4], int(byte_offset & 2) * 8, 16);
    return format == FORMAT_F16 ? unpack_halves(half_bits).x : uintBitsToFloat(half_bits << 16);
}

// Four elements, `stride` apart; the first is a multiple of 4 if the format is quantised. pairs: the first element's
// offset is even.
vec4 TENSOR_NAME(_load4)(const uint format, const bool pairs, uint element, const uint stride) {
#ifdef TENSOR_QUANTISED
    if (is_quantised(format)) return TENSOR_NAME(_load_quantised)(format, element);
#endif
    if (format != FORMAT_F32 && pairs && stride == 1) {
        uint word = base_bytes(TENSOR_BINDING) / 4 + element / 2;
        return expand_halves(format, uvec2(WORDS[word], WORDS[word + 1]));
    }
    return vec4(TENSOR_NAME(_load)(format, element), TENSOR_NAME(_load)(format, element + stride),
                TENSOR_NAME(_load)(format, element + 2 * stride), TENSOR_NAME(_load)(format, element + 3 * stride));
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
// The scale of a quantised element's block.
float TENSOR_NAME(_scale_of_block)(const uint format, uint element) {
    uint block = base_bytes(TENSOR_BINDING) + quantised_block(format, element);
    return quantised_scale(WORDS[block / 4], block);
}

// Elements `element` (a multiple of 8) to `element + 7` of a quantised tensor, without their scale: whole numbers.
mat2x4 TENSOR_NAME(_load8_unscaled)(const uint format, uint element) {
    uint block = base_bytes(TENSOR_BINDING) + quantised_block(format, element), i = element % QUANTISED_BLOCK;
    uint at = block + quantised_byte(format, i);
    uvec2 bytes = uvec2(WORDS[at / 4], WORDS[at / 4 + 1]);
    if ((at & 2) != 0) bytes = (bytes >> 16) | (uvec2(bytes.y, WORDS[at / 4 + 2]) << 16);
    return mat2x4(quantised_values(format, bytes.x, i), quantised_values(format, bytes.y, i));
}

mat2x4 TENSOR_NAME(_load8_quantised)(const uint format, uint element) {
    return TENSOR_NAME(_scale_of_block)(format, element) * TENSOR_NAME(_load8_unscaled)(format, element);
}
#endif

// Eight elements; the first is a multiple of 8 if the format is quantised, and begins at sixteen bytes if not.
mat2x4 TENSOR_NAME(_load8)(const uint format, uint element) {
#ifdef TENSOR_QUANTISED
    if (is_quantised(format)) return TENSOR_NAME(_load8_quantised)(format, element);
#endif
    if (format != FORMAT_F32) return expand_vector(format, TENSOR_NAME(_load8_halves)(element));
    uint vector = base_bytes(TENSOR_BINDING) / 16 + element / 4;
    return mat2x4(uintBitsToFloat(TENSOR_NAME(_vectors)[vector]), uintBitsToFloat(TENSOR_NAME(_vectors)[vector + 1]));
}
#endif

#ifdef TENSOR_WRITABLE
// A 16-bit value that shares its word with another invocation's (or the caller's) is written by two atomics: each
// touches its own half only, so the result does not depend on their order.
void TENSOR_NAME(_store)(const uint format, uint element, float value) {
    uint base = base_bytes(TENSOR_BINDING);
    if (format == FORMAT_F32) {
        WORDS[base / 4 + element] = floatBitsToUint(value);
        return;
    }
    uint byte_offset = base + 2 * element;
    uint shift = (byte_offset & 2) * 8;
    atomicAnd(WORDS[byte_offset / 4], 0xffff0000u >> shift);
    atomicOr(WORDS[byte_offset / 4], half_bits_of(format, value) << shift);
}

// Two neighbours. pairs: the first element's offset is even, and both belong to this invocation.
void TENSOR_NAME(_store2)(const uint format, const bool pairs, uint element, const uint stride, vec2 value) {
    if (format != FORMAT_F32 && pairs && stride == 1) {
        WORDS[base_bytes(TENSOR_BINDING) / 4 + element / 2] =
            half_bits_of(format, value.x) | (half_bits_of(format, value.y) << 16);
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
