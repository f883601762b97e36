// Template, a part of formats/blocks.glsl: ggml's super-blocks of 256.
//
// q4_K and q5_K: the f16 scale, the f16 of minimums, twelve bytes of scales and minimums of six bits, one of each for 32
// numbers; of q5_K 32 bytes of fifth bits, number i's the bit i / 32 of byte i % 32; then half bytes: those of 64 numbers in
// 32 bytes, the lower half first.
// q6_K: the lower four bits, those of 128 numbers in 64 bytes, the lower halves first; the upper two, those of 128 numbers
// in 32 bytes, number i's at bit i / 32 * 2; signed scales, a byte for 16 numbers; the f16 scale.

// The scales in x and the minimums in y, of six bits each, of numbers 32 j to 32 j + 31 in the lowest bytes, those of 32 more in
// the next where j is even.
uvec2 six_bits(BLOCK block, uint j) {
    uint shift = j % 4 * 8;
    uvec2 words = uvec2(read_word(block, 4), read_word(block, 8)) >> shift;
    uvec2 lower = words & 0x3f3fu;
#ifndef SELECTS
    if (j < 4) return lower;
#endif
    uint both = read_word(block, 12) >> shift;
    uvec2 upper = (uvec2(both, both >> 4) & 0x0f0fu) | (words >> 2 & 0x3030u);
#ifdef SELECTS
    if (j < 4) return lower;
#endif
    return upper;
}

float signed_scale(BLOCK block, uint i) {
    uint scales = read_word(block, 192 + i / 64 * 4);
    return read_half(block, 208) * float(bitfieldExtract(int(scales), int(OWN_ELEMENT(i) / 16 % 4) * 8, 8));
}

vec2 super_affine(const uint format, BLOCK block, uint i) {
    if (!has_minimum(format)) return vec2(signed_scale(block, i), 0.0);
    return vec2(read_half(block, 0), -read_half(block, 2)) * vec2(six_bits(block, i / QUANTISED_BLOCK) & 255u);
}

NUMBERS super_numbers(const uint format, BLOCK block, uint i) {
    if (format == FORMAT_Q6_K) {
        BYTES low = read_bytes(block, i / 128 * 64, i % 64, 64) >> (i / 64 % 2 * 4) & 0x0f0f0f0fu;
        BYTES high = read_bytes(block, 128 + i / 128 * 32, i % 32, 32) >> (i / 32 % 4 * 2) & 0x03030303u;
        return UNSIGNED_BYTES(low | high << 4, 32.0);
    }
    const uint halves = bytes_of_block(format) - 128;
    BYTES bytes = read_bytes(block, halves + i / 64 * 32, i % 32, 32) >> (i / 32 % 2 * 4) & 0x0f0f0f0fu;
    if (format == FORMAT_Q5_K) bytes |= (read_bytes(block, 16, i % 32, 32) >> (i / 32) & 0x01010101u) << 4;
    return UNSIGNED_BYTES(bytes, 0.0);
}
