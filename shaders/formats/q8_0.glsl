// q8_0 of ggml: a block of 32 is an f16 scale, then 32 signed bytes.

#ifdef ENCODES_BLOCKS
EncodedBlock q8_0_encode(float values[32]) {
    uint largest = 0u;
    for (uint i = 0; i < 32; ++i) largest = max(largest, magnitude_bits(values[i]));
    float scale = divide(uintBitsToFloat(largest), 127.0);
    float inverse = scale != 0.0 ? divide(1.0, scale) : 0.0;
    EncodedBlock block = begin_block(scale_bits(scale, largest));
    for (uint i = 0; i < 32; ++i) {
        precise float scaled = values[i] * inverse;
        put_byte(block, 2 + i, uint(int(round_half_away(scaled))) & 255u);
    }
    return block;
}
#endif
