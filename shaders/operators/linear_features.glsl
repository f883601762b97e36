// Eight neighbouring features of a row of the input or of the weight at a time, as f32; zeros past the last. A row is
// given as the element of its first feature; a feature is a multiple of eight.
#ifndef LINEAR_FEATURES_GLSL
#define LINEAR_FEATURES_GLSL

#include "operators/linear_tensors.glsl"

const uint FEATURES = 8;

mat2x4 load_input_features(uint row, uint feature) {
    mat2x4 features = mat2x4(0);
    if (feature >= push.in_features) return features;
    if (is_quantised(INPUT_FORMAT) || (ALIGNED & ALIGNED_INPUT) != 0) return input_load8(INPUT_FORMAT, row + feature);
    uint count = min(FEATURES, push.in_features - feature);
    for (uint i = 0; i < count; ++i) features[i / 4][i % 4] = input_load(INPUT_FORMAT, row + feature + i);
    return features;
}

mat2x4 load_weight_features(uint row, uint feature) {
    mat2x4 features = mat2x4(0);
    if (feature >= push.in_features) return features;
#ifdef QUANTISED_WEIGHT
    return weight_load8_quantised(WEIGHT_FORMAT, row + feature);
#else
    if ((ALIGNED & ALIGNED_WEIGHT) != 0) return weight_load8(WEIGHT_FORMAT, row + feature);
    uint count = min(FEATURES, push.in_features - feature);
    for (uint i = 0; i < count; ++i)
        features[i / 4][i % 4] = weight_load(WEIGHT_FORMAT, row + (feature + i) * push.weight_strides[1]);
    return features;
#endif
}

#endif
