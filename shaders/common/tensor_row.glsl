// Template: neighbouring dims of a row of a tensor; those past the row's end are zeros. Included once a tensor, after
// its common/tensor.glsl with TENSOR_VECTORS.
//
// Before: TENSOR, the tensor's name
// row: the element of the row's first dim; dims: how many the row has; stride: elements from dim to dim

// Dims `dim` (a multiple of 4) to `dim + 3` of a row that is not quantised. pairs: the offset of each row's first element is even.
vec4 TENSOR_NAME(_load_block)(const uint format, const bool pairs, uint row, uint dim, const uint dims,
                              const uint stride) {
    uint element = row + dim * stride;
    if (dim + 4 <= dims) return TENSOR_NAME(_load4_floats)(format, pairs, element, stride);
    vec4 block = vec4(0);
    for (uint i = 0; dim + i < dims; ++i) block[i] = TENSOR_NAME(_load_float)(format, element + i * stride);
    return block;
}

// Dims `dim` (a multiple of 8) to `dim + 7`. In one load where sixteen bytes begin there (aligned) or the row is
// quantised; else in a loop, because SwiftShader runs through what a specialisation constant rules out, but not through
// loops.
mat2x4 TENSOR_NAME(_load_vector)(const uint format, const bool pairs, const bool aligned, uint row, uint dim,
                                 const uint dims, const uint stride) {
    if (is_quantised(format) || aligned) return TENSOR_NAME(_load8)(format, row + dim);
    vec4 low, high = vec4(0);
    for (uint i = 0; i < 2; ++i) {
        low = high;
        high = dim + 4 * i < dims ? TENSOR_NAME(_load_block)(format, pairs, row, dim + 4 * i, dims, stride) : vec4(0);
    }
    return mat2x4(low, high);
}

#undef TENSOR
