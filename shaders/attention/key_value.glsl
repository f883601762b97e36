// The tensors key [B,Hkv,Lk,D] and value [B,Hkv,Lk,Dv], wherever attention/keys.glsl finds their rows.
#ifndef KEY_VALUE_GLSL
#define KEY_VALUE_GLSL

#include "attention/keys.glsl"

#define TENSOR key
#define TENSOR_BINDING BINDING_KEY
#define TENSOR_QUANTISED
#define TENSOR_VECTORS
#include "common/tensor.glsl"
#define TENSOR key
#include "common/tensor_row.glsl"

#define TENSOR value
#define TENSOR_BINDING BINDING_VALUE
#define TENSOR_QUANTISED
#define TENSOR_VECTORS
#include "common/tensor.glsl"
#define TENSOR value
#include "common/tensor_row.glsl"

// The first element of the row of a KV head that lies at row_of_key.
uint element_of_key(uvec2 at, uint kv_head, uvec4 strides) {
    return at.x * strides[0] + kv_head * strides[1] + at.y * strides[2];
}

uint key_element(Row row, Slot slot) {
    return element_of_key(row_of_slot(row, slot), row.kv_head, parameters.key_strides);
}

uint value_element(Row row, Slot slot) {
    return element_of_key(row_of_slot(row, slot), row.kv_head, parameters.value_strides);
}

// Dims `dim` (a multiple of 8) to `dim + 7`.
mat2x4 load_key_vector(Row row, Slot slot, uint dim) {
    mat2x4 vector = key_load_vector(KEY_FORMAT, has(FEATURE_KEY_PAIRS), has(FEATURE_KEY_ALIGNED),
                                    key_element(row, slot), dim, HEAD_DIM, KEY_DIM_STRIDE);
    return SCALES_KEYS ? key_scale(row, key_of_slot(row, slot)) * vector : vector;
}

// Without what value_scale gives.
mat2x4 load_unscaled_value_vector(Row row, Slot slot, uint dim) {
    return value_load_vector(VALUE_FORMAT, has(FEATURE_VALUE_PAIRS), has(FEATURE_VALUE_ALIGNED),
                             value_element(row, slot), dim, V_HEAD_DIM, VALUE_DIM_STRIDE);
}

mat2x4 load_value_vector(Row row, Slot slot, uint dim) {
    mat2x4 vector = load_unscaled_value_vector(row, slot, dim);
    return SCALES_VALUES ? value_scale(row, key_of_slot(row, slot)) * vector : vector;
}

// The same as they are stored, of aligned rows of 16 bits.
uvec4 load_key_halves(Row row, Slot slot, uint dim) { return key_load8_halves(key_element(row, slot) + dim); }

uvec4 load_value_halves(Row row, Slot slot, uint dim) { return value_load8_halves(value_element(row, slot) + dim); }

#endif
