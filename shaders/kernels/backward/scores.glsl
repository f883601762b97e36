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
#include "kernels/backward/tiles.glsl"

// Of each row of the tile the logarithm of its sum, in units of log 2, and delta.
shared vec2 row_numbers[OWN > PASSING ? OWN : PASSING];

// In place of the logarithm of a row that sees no key, or does not exist.
const float NO_KEYS = 3.0e38;

vec2 load_row_numbers(Row row, bool exists) {
    RowSum sum = load_row_sum(row);
    return exists && sum.saw ? vec2(sum.log2_sum, load_delta(row)) : vec2(NO_KEYS, 0);
}

mat2x4 load_query_of(Row row, uint dim) { return dim < HEAD_DIM ? load_query_vector(row, dim) : mat2x4(0); }
mat2x4 load_d_output_of(Row row, uint dim) { return dim < V_HEAD_DIM ? load_d_output_vector(row, dim) : mat2x4(0); }

mat2x4 load_key_of(uint batch, uint kv_head, Key key, uint dim) {
    uint element = element_of_key(row_of_key(batch, key), kv_head, parameters.key_strides);
    if (dim >= HEAD_DIM) return mat2x4(0);
    return key_load_vector(KEY_FORMAT, has(FEATURE_KEY_PAIRS), has(FEATURE_KEY_ALIGNED), element, dim, HEAD_DIM,
                           KEY_DIM_STRIDE);
}

mat2x4 load_value_of(uint batch, uint kv_head, Key key, uint dim) {
    uint element = element_of_key(row_of_key(batch, key), kv_head, parameters.value_strides);
    if (dim >= V_HEAD_DIM) return mat2x4(0);
    return value_load_vector(VALUE_FORMAT, has(FEATURE_VALUE_PAIRS), has(FEATURE_VALUE_ALIGNED), element, dim,
                             V_HEAD_DIM, VALUE_DIM_STRIDE);
}

float weight_of(float product, Row row, Key key, float log2_sum, uint times, bool all_visible) {
    if (log2_sum >= NO_KEYS || times == 0) return 0.0;
    float score = transform_score(product, row, key);
    if (!all_visible) score = mask_score(score, row, key);
    return score == HIDDEN ? 0.0 : float(times) * exp2(score - log2_sum);
}

#define FINISH_SCORES(all_visible)                                                                                     \
    [[dont_unroll]] for (uint i = 0; i < ROWS * KEYS_OF_INVOCATION; ++i) {                                             \
        uint own = own_of(i / KEYS_OF_INVOCATION), k = i % KEYS_OF_INVOCATION, at = number_at(own, k);                 \
        uint passing = passing_of(k);                                                                                  \
        Row row = row_of_pair(own, passing);                                                                           \
        Key key = key_of_pair(own, passing);                                                                           \
        vec2 numbers = row_numbers[numbers_of_pair(own, passing)];                                                     \
        float product = score_tile[at];                                                                                \
        float weight = weight_of(product, row, key, numbers.x, times_seen(row, own, passing), all_visible);            \
        float kept = dropout_factor(row, key), gradient = kept == 0.0 ? 0.0 : kept * gradient_tile[at];                \
        score_tile[at] = weight * kept;                                                                                \
        gradient_tile[at] = weight == 0.0 ? 0.0 : weight * (gradient - numbers.y) * slope_of_cap(product);             \
    }

// score_tile and gradient_tile of the tiles.
#define MAKE_GRADIENTS(all_visible)                                                                                    \
    MULTIPLY(own_first, passing_first, HEAD_DIM)                                                                       \
    PUT_PRODUCTS(score_tile, parameters.scale_log2)                                                                    \
    MULTIPLY(own_second, passing_second, V_HEAD_DIM)                                                                   \
    PUT_PRODUCTS(gradient_tile, 1.0)                                                                                   \
    FINISH_SCORES(all_visible)

// What sums of score gradients times Q or K are multiplied with.
float scale_of_sums() { return parameters.scale_log2 * LN_2; }

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
