// q4_1 of ggml: a block of 32 is an f16 scale, an f16 minimum, then 16 bytes as of q4_0, whose numbers are from 0 on.

#ifdef ENCODES_BLOCKS
EncodedBlock q4_1_encode(float values[32]) {
    EncodedNumbers numbers = encode_affine(values, 15);
    EncodedBlock block = begin_block(numbers.scale);
    put_half_bytes(block, 4, numbers);
    return block;
}
#endif
