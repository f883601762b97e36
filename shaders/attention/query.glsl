// The tensor query [B,Hq,Lq,D], or packed [1,Hq,total,D].
#ifndef QUERY_GLSL
#define QUERY_GLSL

#include "attention/rows.glsl"

#define TENSOR query
#define TENSOR_BINDING BINDING_QUERY
#define TENSOR_VECTORS
#include "common/tensor.glsl"
#define TENSOR query
#include "common/tensor_row.glsl"

uint query_element(Row row) {
    return row.batch * parameters.query_strides[0] + row.query_head * parameters.query_strides[1] +
           query_row(row.batch, row.position) * parameters.query_strides[2];
}

// Dims `dim` (a multiple of 8) to `dim + 7`.
mat2x4 load_query_vector(Row row, uint dim) {
    return query_load_vector(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), has(FEATURE_QUERY_ALIGNED), query_element(row),
                             dim, HEAD_DIM, QUERY_DIM_STRIDE);
}

// The same as they are stored, of aligned rows of 16 bits.
uvec4 load_query_halves(Row row, uint dim) { return query_load8_halves(query_element(row) + dim); }

// Dims 4 * block to 4 * block + 3 of a row that has them.
vec4 load_query_block(uint row_element, uint block) {
    return query_load4(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), row_element + 4 * block * QUERY_DIM_STRIDE,
                       QUERY_DIM_STRIDE);
}

#endif
