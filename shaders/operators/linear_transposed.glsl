// Factors whose outputs, or rows, lie beside each other: eight of them of one feature at a time. Feature and first of the eight exist,
// or what is loaded is not used.
#ifndef LINEAR_TRANSPOSED_GLSL
#define LINEAR_TRANSPOSED_GLSL

#include "operators/linear_features.glsl"

// Where a feature's outputs, or rows, begin.
uint start_of_feature(const uint strides[3], uint feature) {
    if ((TRANSPOSED & TRANSPOSED_BATCHES) == 0) return feature * strides[1];
    return feature / strides[2] * strides[0] + feature % strides[2] * strides[1];
}

uint weight_place(uint feature, uint o) {
    feature = min(feature, push.in_features - 1);
    return start_of_feature(push.weight_strides, feature) +
           ((ALIGNED & ALIGNED_WEIGHT) == 0 ? o : min(o, push.out_features - FEATURES));
}

uint input_place(uint feature, uint row) {
    feature = min(feature, push.in_features - 1);
    return start_of_feature(push.input_strides, feature) +
           ((ALIGNED & ALIGNED_INPUT) == 0 ? row : min(row, push.rows - FEATURES));
}

mat2x4 load_weight_outputs(uint feature, uint o) {
#ifdef QUANTISED_WEIGHT
    return weight_load8_quantised(WEIGHT_FORMAT, weight_place(feature, min(o, push.out_features - FEATURES)));
#else
    uint place = weight_place(feature, o);
    if ((ALIGNED & ALIGNED_WEIGHT) != 0) return weight_load8(WEIGHT_FORMAT, place);
    mat2x4 outputs = mat2x4(0);
    uint count = min(FEATURES, push.out_features - min(o, push.out_features));
    for (uint i = 0; i < count; ++i) outputs[i / 4][i % 4] = weight_load(WEIGHT_FORMAT, place + i);
    return outputs;
#endif
}

mat2x4 load_input_rows(uint feature, uint row) {
    uint place = input_place(feature, row);
    if ((ALIGNED & ALIGNED_INPUT) != 0) return input_load8(INPUT_FORMAT, place);
    mat2x4 rows = mat2x4(0);
    uint count = min(FEATURES, push.rows - min(row, push.rows));
    for (uint i = 0; i < count; ++i) rows[i / 4][i % 4] = input_load(INPUT_FORMAT, place + i);
    return rows;
}

#endif
