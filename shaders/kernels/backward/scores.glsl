// What becomes of the two products of the backward pass: of scores and gradients of weights, gradients of scores,
//
//     weight = exp(score - log_sum_exp);  score gradient = weight * (dropout * weight gradient - delta) * derivative of softcap
//
// Before: of a pair of an own one and one that passes by, row_of_pair, key_of_pair, and times_seen, how often the row goes through the
// key; numbers_of_pair, where row_numbers has the row's.
#ifndef BACKWARD_SCORES_GLSL
#define BACKWARD_SCORES_GLSL

#include "attention/dropout.glsl"
#include "attention/gradients.glsl"
#include "attention/key_value.glsl"
#include "attention/query.glsl"
#include "attention/variant.glsl"
#ifdef MATRICES
#include "kernels/backward/matrix_tiles.glsl"
#else
#include "kernels/backward/tiles.glsl"
#endif

// Of each row of the tile the logarithm of its sum, in units of log 2, and delta.
shared vec2 row_numbers[OWN > PASSING ? OWN : PASSING];

// In place of the logarithm of a row that sees no key, or does not exist.
const float NO_KEYS = 3.0e38;

vec2 load_row_numbers(Row row, bool exists) {
    RowSum sum = load_row_sum(row);
    return exists && sum.saw ? vec2(sum.log2_sum, load_delta(row)) : vec2(NO_KEYS, 0);
}

// Eight dims, from a multiple of 8 on; zeros past the end. Matrices are of rows of 16 bits in whole vectors, as they are stored.
#ifdef MATRICES
VECTOR load_query_of(Row row, uint dim) { return dim < HEAD_DIM ? load_query_halves(row, dim) : VECTOR(0); }
VECTOR load_d_output_of(Row row, uint dim) {
    return dim < V_HEAD_DIM ? d_output_load8_halves(d_output_element(row) + dim) : VECTOR(0);
}
#define LOAD_KEY(element, dim) key_load8_halves((element) + (dim))
#define LOAD_VALUE(element, dim) value_load8_halves((element) + (dim))
#else
VECTOR load_query_of(Row row, uint dim) { return dim < HEAD_DIM ? load_query_vector(row, dim) : VECTOR(0); }
VECTOR load_d_output_of(Row row, uint dim) { return dim < V_HEAD_DIM ? load_d_output_vector(row, dim) : VECTOR(0); }
#define LOAD_KEY(element, dim)                                                                                         \
    key_load_vector(KEY_FORMAT, has(FEATURE_KEY_PAIRS), has(FEATURE_KEY_ALIGNED), element, dim, HEAD_DIM,              \
                    KEY_DIM_STRIDE)
#define LOAD_VALUE(element, dim)                                                                                       \
    value_load_vector(VALUE_FORMAT, has(FEATURE_VALUE_PAIRS), has(FEATURE_VALUE_ALIGNED), element, dim, V_HEAD_DIM,    \
                      VALUE_DIM_STRIDE)
#endif

VECTOR load_key_of(uint batch, uint kv_head, Key key, uint dim) {
    uint element = element_of_key(row_of_key(batch, key), kv_head, parameters.key_strides);
    return dim < HEAD_DIM ? LOAD_KEY(element, dim) : VECTOR(0);
}

VECTOR load_value_of(uint batch, uint kv_head, Key key, uint dim) {
    uint element = element_of_key(row_of_key(batch, key), kv_head, parameters.value_strides);
    return dim < V_HEAD_DIM ? LOAD_VALUE(element, dim) : VECTOR(0);
}

float weight_of(float product, Row row, Key key, float log2_sum, uint times, bool all_visible) {
    float score = transform_score(product, row, key);
    if (!all_visible) score = mask_score(score, row, key);
    bool seen = score != HIDDEN && log2_sum < NO_KEYS && times != 0;
    return seen ? float(times) * exp2(score - log2_sum) : 0.0;
}

// Of what gradients are wanted of: the product before softcap, or what a mask adds after it.
#ifdef OF_MASK
#define SLOPE_OF_SCORE(product) 1.0
#else
#define SLOPE_OF_SCORE(product) slope_of_cap(product)
#endif

// Whether a tile needs no look at a pair's row and key.
bool is_plain(bool all_visible) { return all_visible && !TRANSFORMS_SCORES && !LISTS_KEYS && !has(FEATURE_DROPOUT); }

// The weight as dropout leaves it, and the gradient of the product before softcap, in units of log 2.
vec2 finish_plain(float product, float gradient, vec2 numbers) {
    float weight = exp2(product - numbers.x);
    return vec2(weight, weight * (gradient - numbers.y));
}

vec2 finish_pair(uint own, uint passing, float product, float gradient, bool all_visible) {
    vec2 numbers = row_numbers[numbers_of_pair(own, passing)];
    if (is_plain(all_visible)) return finish_plain(product, gradient, numbers);
    Row row = row_of_pair(own, passing);
    Key key = key_of_pair(own, passing);
    float weight = weight_of(product, row, key, numbers.x, times_seen(row, own, passing), all_visible);
    float factor = dropout_factor(row, key), kept = factor == 0.0 ? 0.0 : factor * gradient;
    return vec2(weight * factor, weight == 0.0 ? 0.0 : weight * (kept - numbers.y) * SLOPE_OF_SCORE(product));
}

// What sums of score gradients times Q or K are multiplied with.
float scale_of_sums() { return parameters.scale_log2 * LN_2 * unit_of_score_gradients(); }

// Stores four dims from `dim` on, of so many.
#define STORE_BLOCK(name, format, pairs, element, dim, dims, stride, block)                                            \
    for (uint pair = 0; pair < 4; pair += 2) {                                                                         \
        vec2 values = pair == 0 ? (block).xy : (block).zw;                                                             \
        uint at = (element) + ((dim) + pair) * (stride);                                                               \
        if ((dim) + pair + 2 <= (dims))                                                                                \
            name##_store2(format, pairs, at, stride, values);                                                          \
        else if ((dim) + pair < (dims))                                                                                \
            name##_store(format, at, values.x);                                                                        \
    }

#endif
