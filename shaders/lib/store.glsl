// Writes f32 values to the bound output tensor in its storage format. Included once per tensor, after lib/round.glsl.
// Before: WORDS, the bound array of 32-bit words; BINDING, its number; STORE and STORE2, the names of the two
// functions. A 16-bit value that shares its word with another invocation's (or the caller's) is written by two atomics:
// each touches its own half only, so the result does not depend on their order.

void STORE(const uint format, uint element, float value) {
    uint base = base_bytes(BINDING);
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
void STORE2(const uint format, const bool pairs, uint element, const uint stride, vec2 value) {
    if (format != FORMAT_F32 && pairs && stride == 1) {
        WORDS[base_bytes(BINDING) / 4 + element / 2] =
            half_bits_of(format, value.x) | (half_bits_of(format, value.y) << 16);
        return;
    }
    STORE(format, element, value.x);
    STORE(format, element + stride, value.y);
}

#undef WORDS
#undef BINDING
#undef STORE
#undef STORE2
