// q5_0 of ggml: a block of 32 is an f16 scale, a word of the numbers' fifth bits, then 16 bytes as of q4_0; each number is
// stored above itself by 16.

#ifdef ENCODES_BLOCKS
EncodedBlock q5_0_encode(float values[32]) {
    EncodedNumbers numbers = encode_scaled(values, 16);
    EncodedBlock block = begin_block(numbers.scale);
    put_fifth_bits(block, 2, numbers);
    put_half_bytes(block, 6, numbers);
    return block;
}
#endif
