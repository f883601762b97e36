// Eight neighbouring features of a row of the input or of the weight at a time, as f32; zeros behind the last. A row is
// given as the element of its first feature; a feature is a multiple of eight.
// After lib/linear_bindings.glsl with WITH_VECTORS.

const uint FEATURES = 8;

mat2x4 load_input_features(uint row, uint feature) {
    mat2x4 features = mat2x4(0);
    if (feature >= push.in_features) return features;
    if (is_quantised(INPUT_FORMAT) || (ALIGNED & ALIGNED_INPUT) != 0) return load_input8(INPUT_FORMAT, row + feature);
    uint count = min(FEATURES, push.in_features - feature);
    for (uint i = 0; i < count; ++i) features[i / 4][i % 4] = load_input(INPUT_FORMAT, row + feature + i);
    return features;
}

mat2x4 load_weight_features(uint row, uint feature) {
    mat2x4 features = mat2x4(0);
    if (feature >= push.in_features) return features;
    if ((ALIGNED & ALIGNED_WEIGHT) != 0) return load_weight8(WEIGHT_FORMAT, row + feature);
    uint count = min(FEATURES, push.in_features - feature);
    for (uint i = 0; i < count; ++i)
        features[i / 4][i % 4] = load_weight(WEIGHT_FORMAT, row + (feature + i) * push.weight_strides[1]);
    return features;
}
