// The online softmax state of a row: the maximum so far and the sum of exp2(score - maximum).
// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
#ifndef SOFTMAX_GLSL
#define SOFTMAX_GLSL

#include "attention/rows.glsl"
#ifdef LSE_MOD
#include "attention/functions.glsl"
#endif

layout(set = 0, binding = BINDING_SINKS, std430) readonly buffer SinksBuffer { float sinks[]; };
layout(set = 0, binding = BINDING_LOG_SUM_EXP, std430) writeonly buffer LogSumExpBuffer { uint log_sum_exp_words[]; };

struct SoftmaxState {
    float maximum;
    float sum;
};

SoftmaxState softmax_empty() { return SoftmaxState(LOWEST_MAXIMUM, 0.0); }

// A sink adds exp(sink) to the denominator and no value. A row that saw no key stays empty.
float add_sink(inout SoftmaxState state, Row row) {
    if (!has(FEATURE_SINKS) || state.sum == 0.0) return 1.0;
    float sink = max(sinks[base_bytes(BINDING_SINKS) / 4 + row.query_head] * LOG2_E, HIDDEN);
    float maximum = max(state.maximum, sink);
    float rescale = exp2(state.maximum - maximum);
    state = SoftmaxState(maximum, state.sum * rescale + exp2(sink - maximum));
    return rescale;
}

// Completes the denominator of a row whose keys are all summed: adds its sink, then applies the user's lse_mod. Returns the factor of
// the sums of values, before they are divided by the new sum.
#ifdef LSE_MOD
float softmax_denominator_scale(inout SoftmaxState state, Row row) {
    float rescale = add_sink(state, row);
    if (state.sum == 0.0) return rescale;
    float log_sum_exp = (state.maximum + log2(state.sum)) * LN_2;
    float modified = lse_mod(log_sum_exp, batch_of(row), head_of(row), query_of(row)) * LOG2_E;
    rescale *= exp2(state.maximum - modified);
    state = SoftmaxState(modified, 1.0);
    return rescale;
}
#else
#define softmax_denominator_scale add_sink
#endif

// What sums of values are multiplied with in the end: 0 for a row that saw no key. A sum that is not a number stays one.
float normaliser_of(SoftmaxState state, float rescale) { return state.sum == 0.0 ? 0.0 : rescale / state.sum; }

void store_log_sum_exp(SoftmaxState state, Row row) {
    if (!has(FEATURE_LOG_SUM_EXP)) return;
    // -inf is written as bits: not every device computes it
    uint bits = state.sum == 0.0 ? 0xff800000u : floatBitsToUint((state.maximum + log2(state.sum)) * LN_2);
    log_sum_exp_words[base_bytes(BINDING_LOG_SUM_EXP) / 4 + log_sum_exp_index(row)] = bits;
}

#endif
