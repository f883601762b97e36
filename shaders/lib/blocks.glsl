// Four neighbours of a row of Q, K, V or the output, from dim `dim` (a multiple of 4) on; read, dims behind the row's
// end are zeros. After lib/work.glsl.

vec4 load_query_block(Row row, uint dim) {
    uint element = query_element(row) + dim * QUERY_DIM_STRIDE;
    if (dim + 4 <= HEAD_DIM) return load_query4(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), element, QUERY_DIM_STRIDE);
    vec4 block = vec4(0);
    for (uint i = 0; dim + i < HEAD_DIM; ++i) block[i] = load_query(QUERY_FORMAT, element + i * QUERY_DIM_STRIDE);
    return block;
}

vec4 load_key_block(Row row, uint key, uint dim) {
    uint element = key_element(row, key) + dim * KEY_DIM_STRIDE;
    if (dim + 4 <= HEAD_DIM) return load_key4(KEY_FORMAT, has(FEATURE_KEY_PAIRS), element, KEY_DIM_STRIDE);
    vec4 block = vec4(0);
    for (uint i = 0; dim + i < HEAD_DIM; ++i) block[i] = load_key(KEY_FORMAT, element + i * KEY_DIM_STRIDE);
    return block;
}

vec4 load_value_block(Row row, uint key, uint dim) {
    uint element = value_element(row, key) + dim * VALUE_DIM_STRIDE;
    if (dim + 4 <= V_HEAD_DIM) return load_value4(VALUE_FORMAT, has(FEATURE_VALUE_PAIRS), element, VALUE_DIM_STRIDE);
    vec4 block = vec4(0);
    for (uint i = 0; dim + i < V_HEAD_DIM; ++i) block[i] = load_value(VALUE_FORMAT, element + i * VALUE_DIM_STRIDE);
    return block;
}

// Writes four neighbours of an output row, of which those behind the row's end are left out.
void store_output_block(uint row_element, uint dim, vec4 block) {
    [[unroll]] for (uint pair = 0; pair < 4; pair += 2) {
        uint at = row_element + (dim + pair) * OUTPUT_DIM_STRIDE;
        if (dim + pair + 2 <= V_HEAD_DIM)
            store_output2(OUTPUT_FORMAT, has(FEATURE_OUTPUT_PAIRS), at, OUTPUT_DIM_STRIDE,
                          pair == 0 ? block.xy : block.zw);
        else if (dim + pair < V_HEAD_DIM)
            store_output(OUTPUT_FORMAT, at, block[pair]);
    }
}
