// What happens to the scores of a step's keys, for an invocation's row.
#ifndef KEY_STEP_GLSL
#define KEY_STEP_GLSL

#include "attention/keys.glsl"
#include "attention/softmax.glsl"
#include "attention/variant.glsl"

float s[STEP]; // scores of a step's keys, then their weights
SoftmaxState state;

void transform_step(Row row, uint first_key) {
    if (!TRANSFORMS_SCORES) return;
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] = transform_score(s[k], row, first_key + k);
}

// Keys before `begin` were attended by an earlier step. No branch: masks read what exists, whatever the key.
void mask_step(Row row, uint first_key, uint begin, uint end) {
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
        uint key = first_key + k, existing = min(key, parameters.kv_len - 1);
        float score = key_exists(row.batch, existing) ? mask_score(s[k], row, existing) : HIDDEN;
        s[k] = key < begin || key >= end ? HIDDEN : score;
    }
}

// Of keys that no mask hides, those that do not exist.
void hide_missing_keys(uint batch, uint first_key) {
    if (PAGE_SIZE == 0) return;
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] =
        key_exists(batch, min(first_key + k, parameters.kv_len - 1)) ? s[k] : HIDDEN;
}

// masked: whether a mask, `begin` or `end` hides any of the step's keys.
void hide_step(bool masked, Row row, uint first_key, uint begin, uint end) {
    if (masked)
        mask_step(row, first_key, begin, end);
    else
        hide_missing_keys(row.batch, first_key);
}

// Scores become weights; returns the rescaling of what the row summed before.
float apply_softmax() {
    float maximum = state.maximum;
    [[unroll]] for (uint k = 0; k < STEP; ++k) maximum = max(maximum, s[k]);
    float rescale = exp2(state.maximum - maximum);
    float sum = 0.0;
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
        s[k] = exp2(s[k] - maximum);
        sum += s[k];
    }
    state = SoftmaxState(maximum, fma(state.sum, rescale, sum));
    return rescale;
}

#endif
