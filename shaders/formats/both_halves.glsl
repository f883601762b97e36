// Template, a part of formats/blocks.glsl: decodes two groups of eight numbers at once. In formats with a low and a high number in
// one byte they share bytes, which are read once; in others they are neighbours.

void both_of_super_block(const uint format, BLOCK block, uint i, out NUMBERS first, out NUMBERS second) {
    if (width_of_number(format) == 6) {
        BYTES low = read_bytes(block, i / 128 * 64, i % 64, 64);
        BYTES high = read_bytes(block, 128 + i / 128 * 32, i % 32, 32) >> (i / 32 % 2 * 2);
        first = unsigned_bytes(low & 0x0f0f0f0fu | (high & 0x03030303u) << 4, 32.0);
        second = unsigned_bytes(low >> 4 & 0x0f0f0f0fu | high & 0x30303030u, 32.0);
        return;
    }
    BYTES bytes = read_bytes(block, bytes_of_block(format) - 128 + i / 64 * 32, i % 32, 32);
    BYTES low = bytes & 0x0f0f0f0fu, high = bytes >> 4 & 0x0f0f0f0fu;
    if (width_of_number(format) == 5) {
        BYTES fifth = read_bytes(block, 16, i % 32, 32) >> (i / 32);
        low |= (fifth & 0x01010101u) << 4;
        high |= (fifth & 0x02020202u) << 3;
    }
    first = unsigned_bytes(low, 0.0);
    second = unsigned_bytes(high, 0.0);
}

// Their (scale, minimum), as affine_of gives each.
void affines_of_both(const uint format, BLOCK block, uint i, out vec2 first, out vec2 second) {
    if (is_super_block(format) && has_minimum(format)) {
        vec2 affine = vec2(read_half(block, 0), -read_half(block, 2));
        uvec2 bits = six_bits(block, i / QUANTISED_BLOCK);
        first = affine * vec2(bits & 255u);
        second = affine * vec2(bits >> 8);
    } else if (is_super_block(format)) {
        first = vec2(signed_scale(block, i), 0.0);
        second = vec2(signed_scale(block, i + elements_to_second(format)), 0.0);
    } else {
        first = second = affine_of(format, block, i); // one block has both
    }
}

// i / elements_to_second is even.
void both_of(const uint format, BLOCK block, uint i, out NUMBERS first, out NUMBERS second) {
    if (is_super_block(format)) {
        both_of_super_block(format, block, i, first, second);
        return;
    }
    if (width_of_number(format) == 8) {
        const uint numbers = bytes_of_block(format) - QUANTISED_BLOCK;
        first = signed_bytes(read_bytes(block, numbers, i, QUANTISED_BLOCK));
        second = signed_bytes(read_bytes(block, numbers, i + 8, QUANTISED_BLOCK));
        return;
    }
    const uint half_bytes = bytes_of_block(format) - QUANTISED_BLOCK / 2;
    BYTES bytes = read_bytes(block, half_bytes, i, 16), low = bytes & 0x0f0f0f0fu, high = bytes >> 4 & 0x0f0f0f0fu;
    if (width_of_number(format) == 5) {
        uint fifth = read_word(block, half_bytes - 4) >> i;
        low |= fifth_bits(fifth, bytes);
        high |= fifth_bits(fifth >> 16, bytes);
    }
    const float above = kind_of_block(format) == AFFINE ? 0.0 : float(1u << (width_of_number(format) - 1));
    if (kind_of_block(format) == LISTED) {
        first = listed_bytes(low);
        second = listed_bytes(high);
    } else {
        first = unsigned_bytes(low, above);
        second = unsigned_bytes(high, above);
    }
}
