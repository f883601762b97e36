// Reads elements of one bound tensor as f32, whatever their storage format. Included once per tensor.
// Before: WORDS, the bound array of 32-bit words; BINDING, its number; LOAD, LOAD4 and LOAD_QUANTISED, the names of the
// functions; where the kernel defines WITH_VECTORS, perhaps VECTORS, the same as an array of sixteen bytes each, and
// LOAD8, LOAD8_HALVES and LOAD8_QUANTISED. 16- and 8-bit data are read from whole words, so no device feature is
// needed.

#include "halves.glsl"
#include "quantised.glsl"

// Elements `element` (a multiple of 4) to `element + 3`.
vec4 LOAD_QUANTISED(const uint format, uint element) {
    uint block = base_bytes(BINDING) + quantised_block(format, element), i = element % QUANTISED_BLOCK;
    uint at = block + quantised_byte(format, i);
    uint bytes = WORDS[at / 4];
    if ((at & 2) != 0) bytes = (bytes >> 16) | (WORDS[at / 4 + 1] << 16);
    return quantised_scale(WORDS[block / 4], block) * quantised_values(format, bytes, i);
}

float LOAD(const uint format, uint element) {
    if (is_quantised(format)) return LOAD_QUANTISED(format, element & ~3u)[element & 3u];
    uint base = base_bytes(BINDING);
    if (format == FORMAT_F32) return uintBitsToFloat(WORDS[base / 4 + element]);
    uint byte_offset = base + 2 * element;
    uint half_bits = bitfieldExtract(WORDS[byte_offset / 4], int(byte_offset & 2) * 8, 16);
    return format == FORMAT_F16 ? unpack_halves(half_bits).x : uintBitsToFloat(half_bits << 16);
}

// Four elements, `stride` apart; the first is a multiple of 4 if the format is quantised. pairs: the first element's
// offset is even.
vec4 LOAD4(const uint format, const bool pairs, uint element, const uint stride) {
    if (is_quantised(format)) return LOAD_QUANTISED(format, element);
    if (format != FORMAT_F32 && pairs && stride == 1) {
        uint word = base_bytes(BINDING) / 4 + element / 2;
        return expand_halves(format, uvec2(WORDS[word], WORDS[word + 1]));
    }
    return vec4(LOAD(format, element), LOAD(format, element + stride), LOAD(format, element + 2 * stride),
                LOAD(format, element + 3 * stride));
}

#if defined(WITH_VECTORS) && defined(VECTORS)
// Eight elements of 16 bits as they lie; the first is a multiple of 8.
uvec4 LOAD8_HALVES(uint element) { return VECTORS[base_bytes(BINDING) / 16 + element / 8]; }

// Elements `element` (a multiple of 8) to `element + 7`.
mat2x4 LOAD8_QUANTISED(const uint format, uint element) {
    uint block = base_bytes(BINDING) + quantised_block(format, element), i = element % QUANTISED_BLOCK;
    uint at = block + quantised_byte(format, i);
    uvec2 bytes = uvec2(WORDS[at / 4], WORDS[at / 4 + 1]);
    if ((at & 2) != 0) bytes = (bytes >> 16) | (uvec2(bytes.y, WORDS[at / 4 + 2]) << 16);
    return quantised_scale(WORDS[block / 4], block) *
           mat2x4(quantised_values(format, bytes.x, i), quantised_values(format, bytes.y, i));
}

// Eight elements; the first is a multiple of 8 if the format is quantised, and begins at sixteen bytes if not.
mat2x4 LOAD8(const uint format, uint element) {
    if (is_quantised(format)) return LOAD8_QUANTISED(format, element);
    if (format != FORMAT_F32) return expand_vector(format, LOAD8_HALVES(element));
    uint vector = base_bytes(BINDING) / 16 + element / 4;
    return mat2x4(uintBitsToFloat(VECTORS[vector]), uintBitsToFloat(VECTORS[vector + 1]));
}
#endif

#undef WORDS
#undef BINDING
#undef LOAD
#undef LOAD4
#undef LOAD_QUANTISED
#undef VECTORS
#undef LOAD8
#undef LOAD8_HALVES
#undef LOAD8_QUANTISED
