// iq4_nl of ggml: a block as of q4_0, whose half bytes name entries of a list.

#ifdef ENCODES_BLOCKS
// The nearest entry; the greater one of two that are as near.
uint iq4_nl_nearest(float value) {
    uint nearest = 0;
    for (uint entry = 1; entry < 16; ++entry) {
        precise float below = value - float(IQ4_NL[entry - 1]);
        precise float above = float(IQ4_NL[entry]) - value;
        if (below >= above) nearest = entry;
    }
    return nearest;
}

// The first entry is the value furthest from zero; the scale is then fitted to the entries by least squares of weight value^2.
EncodedBlock iq4_nl_encode(float values[32]) {
    float furthest = furthest_from_zero(values);
    EncodedNumbers encoded;
    float scale = divide(furthest, float(IQ4_NL[0]));
    float inverse = magnitude_bits(furthest) > floatBitsToUint(1e-15) ? divide(1.0, scale) : 0.0;
    precise float products = 0.0;
    precise float squares = 0.0;
    for (uint i = 0; i < 32; ++i) {
        precise float scaled = values[i] * inverse;
        encoded.numbers[i] = iq4_nl_nearest(scaled);
        precise float entry = float(IQ4_NL[encoded.numbers[i]]);
        precise float weight = values[i] * values[i];
        precise float weighted = weight * entry;
        precise float product = weighted * values[i];
        precise float square = weighted * entry;
        products += product;
        squares += square;
    }
    float fitted = divide(products, squares);
    // numbers whose squares are beyond f32 keep the scale of the furthest
    if (inverse == 0.0 || magnitude_bits(fitted) >= INFINITY_BITS) fitted = scale;
    encoded.scale = scale_bits(fitted, magnitude_bits(furthest));
    EncodedBlock block = begin_block(encoded.scale);
    put_half_bytes(block, 2, encoded);
    return block;
}
#endif
