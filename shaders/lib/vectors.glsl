// Eight neighbours of a row of Q, K or V, from dim `dim` (a multiple of 8) on; dims behind the row's end are zeros. In
// one load where sixteen bytes begin there or the row is quantised; else in a loop: SwiftShader runs through what a
// specialisation constant rules out, and past loops alone. After lib/blocks.glsl, with WITH_VECTORS.

mat2x4 load_query_vector(Row row, uint dim) {
    if (has(FEATURE_QUERY_ALIGNED)) return load_query8(QUERY_FORMAT, query_element(row) + dim);
    vec4 low, high = vec4(0);
    for (uint i = 0; i < 2; ++i) {
        low = high;
        high = dim + 4 * i < HEAD_DIM ? load_query_block(row, dim + 4 * i) : vec4(0);
    }
    return mat2x4(low, high);
}

mat2x4 load_key_vector(Row row, uint key, uint dim) {
    if (is_quantised(KEY_FORMAT) || has(FEATURE_KEY_ALIGNED)) return load_key8(KEY_FORMAT, key_element(row, key) + dim);
    vec4 low, high = vec4(0);
    for (uint i = 0; i < 2; ++i) {
        low = high;
        high = dim + 4 * i < HEAD_DIM ? load_key_block(row, key, dim + 4 * i) : vec4(0);
    }
    return mat2x4(low, high);
}

mat2x4 load_value_vector(Row row, uint key, uint dim) {
    if (is_quantised(VALUE_FORMAT) || has(FEATURE_VALUE_ALIGNED))
        return load_value8(VALUE_FORMAT, value_element(row, key) + dim);
    vec4 low, high = vec4(0);
    for (uint i = 0; i < 2; ++i) {
        low = high;
        high = dim + 4 * i < V_HEAD_DIM ? load_value_block(row, key, dim + 4 * i) : vec4(0);
    }
    return mat2x4(low, high);
}
