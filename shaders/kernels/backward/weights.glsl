// What the two products of a query row and a key become: of scores and gradients of weights, weights and gradients of scores,
//
//     weight = exp(score - log_sum_exp)
//     score gradient = weight * (dropout * weight gradient - delta) * derivative of softcap and score_mod
#ifndef BACKWARD_WEIGHTS_GLSL
#define BACKWARD_WEIGHTS_GLSL

#include "attention/dropout.glsl"
#include "attention/gradients.glsl"
#include "attention/variant.glsl"

// In place of the logarithm of a row that sees no key, or does not exist.
const float NO_KEYS = 3.0e38;

// Of a row the logarithm of its sum, in units of log 2, and delta: as they are stored, and what they are.
struct StoredNumbers {
    uint log_sum_exp_bits;
    float delta;
};

StoredNumbers load_stored_numbers(Row row) { return StoredNumbers(load_log_sum_exp_bits(row), load_delta(row)); }

vec2 row_numbers_of(StoredNumbers stored, bool exists) {
    RowSum sum = row_sum_of(stored.log_sum_exp_bits);
    return exists && sum.saw ? vec2(sum.log2_sum, stored.delta) : vec2(NO_KEYS, 0);
}

vec2 load_row_numbers(Row row, bool exists) { return row_numbers_of(load_stored_numbers(row), exists); }

// times: how often the row goes through the key.
float weight_of(float product, Row row, Key key, float log2_sum, uint times, bool all_visible) {
    float score = transform_score(product, row, key);
    if (!all_visible) score = mask_score(score, row, key);
    bool seen = score != HIDDEN && log2_sum < NO_KEYS && times != 0;
    return seen ? float(times) * exp2(score - log2_sum) : 0.0;
}

// Of what gradients are wanted of: the product before softcap and score_mod, or what a mask adds after them.
#if defined(OF_MASK)
#define SLOPE_OF_SCORE(product, row, key) 1.0
#elif defined(SCORE_MOD_GRAD)
#define SLOPE_OF_SCORE(product, row, key) slope_of_cap(product) * slope_of_function(cap_score(product), row, key)
#else
#define SLOPE_OF_SCORE(product, row, key) slope_of_cap(product)
#endif

// Whether a tile needs no look at a pair's row and key.
bool is_plain(bool all_visible) { return all_visible && !TRANSFORMS_SCORES && !LISTS_KEYS && !has(FEATURE_DROPOUT); }

// The weight as dropout leaves it, and the gradient of the product before softcap, in units of log 2.
vec2 finish_plain(float product, float gradient, vec2 numbers) {
    float weight = exp2(product - numbers.x);
    return vec2(weight, weight * (gradient - numbers.y));
}

vec2 finish_masked(float product, float gradient, vec2 numbers, Row row, Key key, uint times, bool all_visible) {
    float weight = weight_of(product, row, key, numbers.x, times, all_visible);
    float factor = dropout_factor(row, key), kept = factor == 0.0 ? 0.0 : factor * gradient;
    return vec2(weight * factor, weight == 0.0 ? 0.0 : weight * (kept - numbers.y) * SLOPE_OF_SCORE(product, row, key));
}

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
