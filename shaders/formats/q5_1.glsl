// q5_1 of ggml: a block of 32 is an f16 scale, an f16 minimum, a word of the numbers' fifth bits, then 16 bytes as of q4_0.

#ifdef ENCODES_BLOCKS
EncodedBlock q5_1_encode(float values[32]) {
    EncodedNumbers numbers = encode_affine(values, 31);
    EncodedBlock block = begin_block(numbers.scale);
    put_fifth_bits(block, 4, numbers);
    put_half_bytes(block, 8, numbers);
    return block;
}
#endif
