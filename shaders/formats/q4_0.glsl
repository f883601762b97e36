// q4_0 of ggml: a block of 32 is an f16 scale, then 16 bytes, whose lower halves are numbers 0 .. 15 and whose upper halves
// are numbers 16 .. 31, each above the number by 8.

#ifdef ENCODES_BLOCKS
EncodedBlock q4_0_encode(float values[32]) {
    EncodedNumbers numbers = encode_scaled(values, 8);
    EncodedBlock block = begin_block(numbers.scale);
    put_half_bytes(block, 2, numbers);
    return block;
}
#endif
