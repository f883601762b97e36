// Reads elements of one bound tensor as f32, whatever their storage format. Included once per tensor.
// Before: WORDS, the bound array of 32-bit words; BINDING, its number; LOAD and LOAD4, the names of the two functions.
// 16-bit formats are read from whole words, so no device feature is needed.

float LOAD(const uint format, uint element) {
    uint base = base_bytes(BINDING);
    if (format == FORMAT_F32) return uintBitsToFloat(WORDS[base / 4 + element]);
    uint byte_offset = base + 2 * element;
    uint half_bits = bitfieldExtract(WORDS[byte_offset / 4], int(byte_offset & 2) * 8, 16);
    return format == FORMAT_F16 ? unpackHalf2x16(half_bits).x : uintBitsToFloat(half_bits << 16);
}

// Four elements, `stride` apart. pairs: the first element's offset is even.
vec4 LOAD4(const uint format, const bool pairs, uint element, const uint stride) {
    if (format != FORMAT_F32 && pairs && stride == 1) {
        uint word = base_bytes(BINDING) / 4 + element / 2;
        uvec2 halves = uvec2(WORDS[word], WORDS[word + 1]);
        if (format == FORMAT_F16) return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
        return uintBitsToFloat(uvec4(halves.x << 16, halves.x & 0xffff0000u, halves.y << 16, halves.y & 0xffff0000u));
    }
    return vec4(LOAD(format, element), LOAD(format, element + stride), LOAD(format, element + 2 * stride),
                LOAD(format, element + 3 * stride));
}

#undef WORDS
#undef BINDING
#undef LOAD
#undef LOAD4
