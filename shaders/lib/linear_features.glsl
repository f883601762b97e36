// Eight neighbouring features of a row of the input or of the weight at a time, as f32; zeros behind the last. A row is given as
// the element of its first feature; a feature is a multiple of eight.
// After lib/linear_bindings.glsl with WITH_VECTORS.

const uint FEATURES = 8;

uint input_vector(uint element) {
    return base_bytes(BINDING_LINEAR_INPUT) / 16 + element / elements_of_vector(INPUT_FORMAT);
}

uint weight_vector(uint element) {
    return base_bytes(BINDING_LINEAR_WEIGHT) / 16 + element / elements_of_vector(WEIGHT_FORMAT);
}

mat2x4 load_input_features(uint row, uint feature) {
    mat2x4 features = mat2x4(0);
    if (feature >= push.in_features) return features;
    if (is_quantised(INPUT_FORMAT))
        return mat2x4(load_quantised_input(INPUT_FORMAT, row + feature),
                      load_quantised_input(INPUT_FORMAT, row + feature + 4));
    if ((ALIGNED & ALIGNED_INPUT) != 0) {
        uint vector = input_vector(row + feature);
        if (INPUT_FORMAT != FORMAT_F32) return expand_vector(INPUT_FORMAT, input_vectors[vector]);
        return mat2x4(uintBitsToFloat(input_vectors[vector]), uintBitsToFloat(input_vectors[vector + 1]));
    }
    uint count = min(FEATURES, push.in_features - feature);
    for (uint i = 0; i < count; ++i) features[i / 4][i % 4] = load_input(INPUT_FORMAT, row + feature + i);
    return features;
}

mat2x4 load_weight_features(uint row, uint feature) {
    mat2x4 features = mat2x4(0);
    if (feature >= push.in_features) return features;
    if ((ALIGNED & ALIGNED_WEIGHT) != 0) {
        uint vector = weight_vector(row + feature);
        if (WEIGHT_FORMAT != FORMAT_F32) return expand_vector(WEIGHT_FORMAT, weight_vectors[vector]);
        return mat2x4(uintBitsToFloat(weight_vectors[vector]), uintBitsToFloat(weight_vectors[vector + 1]));
    }
    uint count = min(FEATURES, push.in_features - feature);
    for (uint i = 0; i < count; ++i)
        features[i / 4][i % 4] = load_weight(WEIGHT_FORMAT, row + (feature + i) * push.weight_strides[1]);
    return features;
}
