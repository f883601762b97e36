// Eight neighbours of a row of Q, K or V, from dim `dim` (a multiple of 8) on, sixteen bytes at a time where rows lie so; dims
// behind the row's end are zeros. Where rows do not lie so, a loop: SwiftShader runs through what a specialisation constant
// rules out, and past loops alone. After lib/blocks.glsl, with WITH_VECTORS.

mat2x4 load_query_vector(Row row, uint dim) {
    if (has(FEATURE_QUERY_ALIGNED)) {
        uint element = query_element(row) + dim;
        uint vector = base_bytes(BINDING_QUERY) / 16 + element / elements_of_vector(QUERY_FORMAT);
        if (QUERY_FORMAT != FORMAT_F32) return expand_vector(QUERY_FORMAT, query_vectors[vector]);
        return mat2x4(uintBitsToFloat(query_vectors[vector]), uintBitsToFloat(query_vectors[vector + 1]));
    }
    vec4 low, high = vec4(0);
    for (uint i = 0; i < 2; ++i) {
        low = high;
        high = dim + 4 * i < HEAD_DIM ? load_query_block(row, dim + 4 * i) : vec4(0);
    }
    return mat2x4(low, high);
}

uint key_vector(Row row, uint key, uint dim) {
    return base_bytes(BINDING_KEY) / 16 + (key_element(row, key) + dim) / elements_of_vector(KEY_FORMAT);
}

mat2x4 load_key_vector(Row row, uint key, uint dim) {
    if (has(FEATURE_KEY_ALIGNED)) {
        uint vector = key_vector(row, key, dim);
        if (KEY_FORMAT != FORMAT_F32) return expand_vector(KEY_FORMAT, key_vectors[vector]);
        return mat2x4(uintBitsToFloat(key_vectors[vector]), uintBitsToFloat(key_vectors[vector + 1]));
    }
    vec4 low, high = vec4(0);
    for (uint i = 0; i < 2; ++i) {
        low = high;
        high = dim + 4 * i < HEAD_DIM ? load_key_block(row, key, dim + 4 * i) : vec4(0);
    }
    return mat2x4(low, high);
}

uint value_vector(Row row, uint key, uint dim) {
    return base_bytes(BINDING_VALUE) / 16 + (value_element(row, key) + dim) / elements_of_vector(VALUE_FORMAT);
}

mat2x4 load_value_vector(Row row, uint key, uint dim) {
    if (has(FEATURE_VALUE_ALIGNED)) {
        uint vector = value_vector(row, key, dim);
        if (VALUE_FORMAT != FORMAT_F32) return expand_vector(VALUE_FORMAT, value_vectors[vector]);
        return mat2x4(uintBitsToFloat(value_vectors[vector]), uintBitsToFloat(value_vectors[vector + 1]));
    }
    vec4 low, high = vec4(0);
    for (uint i = 0; i < 2; ++i) {
        low = high;
        high = dim + 4 * i < V_HEAD_DIM ? load_value_block(row, key, dim + 4 * i) : vec4(0);
    }
    return mat2x4(low, high);
}
