// What happens to the scores of a step's keys, for an invocation's row. first: slot of the first one.
#ifndef KEY_STEP_GLSL
#define KEY_STEP_GLSL

#include "attention/key_walk.glsl"
#include "attention/softmax.glsl"

float s[STEP]; // scores of a step's keys, then their weights
SoftmaxState state;

void transform_step(Row row, Slot first) {
    if (!TRANSFORMS_SCORES) return;
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] = transform_score(s[k], row, key_of_slot(row, advance(first, k)));
}

// A step that begins before its tile holds slots that an earlier step attended. No branch: masks read what exists,
// whatever the slot.
void mask_step(Row row, Slot first, KeyTile tile) {
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
        Slot slot = advance(first, k);
        float score = has_key(row, slot) ? mask_score(s[k], row, key_of_slot(row, slot)) : HIDDEN;
        s[k] = slot.number < tile.first.number || slot.number >= tile.end ? HIDDEN : score;
    }
}

// Of keys that no mask hides, those that do not exist.
void hide_missing_keys(Row row, Slot first) {
    if (LACKS_KEYS == 0) return;
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] = has_key(row, advance(first, k)) ? s[k] : HIDDEN;
}

// tile: as if each slot had a key.
void hide_step(Row row, Slot first, KeyTile tile) {
    if (tile.all_visible)
        hide_missing_keys(row, first);
    else
        mask_step(row, first, tile);
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
