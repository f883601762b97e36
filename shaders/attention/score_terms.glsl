// What is done to a score between Q K^T and the masks: softcap and ALiBi.
#ifndef SCORE_TERMS_GLSL
#define SCORE_TERMS_GLSL

#include "attention/positions.glsl"

layout(set = 0, binding = BINDING_ALIBI_SLOPES, std430) readonly buffer AlibiBuffer { float alibi_slopes[]; };

// tanh that neither overflows for large arguments nor cancels for small ones. Of what is not a number it is not one.
float stable_tanh(float x) {
    float square = x * x;
    if (square < 0.0625)
        return x * (1.0 + square * (-1.0 / 3.0 +
                                    square * (2.0 / 15.0 + square * (-17.0 / 315.0 + square * (62.0 / 2835.0)))));
    float exponent = 2.0 * LOG2_E * x;
    return exponent > 126.0 ? 1.0 : 1.0 - 2.0 / (exp2(exponent) + 1.0);
}

float cap_score(float score) {
    return has(FEATURE_SOFTCAP) ? parameters.softcap_log2 * stable_tanh(score / parameters.softcap_log2) : score;
}

// The derivative of cap_score.
float slope_of_cap(float score) {
    if (!has(FEATURE_SOFTCAP)) return 1.0;
    float capped = stable_tanh(score / parameters.softcap_log2);
    return 1.0 - capped * capped;
}

float slope_log2(Row row) { return LOG2_E * alibi_slopes[base_bytes(BINDING_ALIBI_SLOPES) / 4 + row.query_head]; }

float bias_score(float score, Row row, Key key) {
    if (!has(FEATURE_ALIBI_SLOPES)) return score;
    return score - slope_log2(row) * float(abs(int(row.position) + diagonal_offset(row.batch) - int(key.number)));
}

#endif
