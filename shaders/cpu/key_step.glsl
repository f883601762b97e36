// What happens to the scores of a step's keys, for an invocation's row. first: slot of the first one.
#ifndef KEY_STEP_GLSL
#define KEY_STEP_GLSL

#include "attention/key_walk.glsl"
#include "attention/softmax.glsl"

float s[STEP]; // scores of a step's keys, then their weights
SoftmaxState state;

// The keys of a step's slots, of all rows of the workgroup the same; of lists, whether there is one.
Key step_keys[STEP];
bool are_listed[STEP];

void find_keys(RowTile rows, Slot first) {
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
        step_keys[k] = Key(advance(first, k).number);
        if (!LISTS_KEYS) continue;
        uint key = listed_key(list_of_tile(rows), step_keys[k].number);
        are_listed[k] = key < parameters.kv_len;
        step_keys[k] = Key(min(key, parameters.kv_len - 1));
    }
}

bool step_has_key(Row row, Slot first, const uint k) {
    return LISTS_KEYS ? are_listed[k] : has_key(row, advance(first, k));
}

void transform_step(Row row) {
    if (!TRANSFORMS_SCORES) return;
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] = transform_score(s[k], row, step_keys[k]);
}

// A step that begins before its tile holds slots that an earlier step attended. No branch: masks read what exists,
// whatever the slot.
void mask_step(Row row, Slot first, KeyTile tile) {
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
        Slot slot = advance(first, k);
        float score = step_has_key(row, first, k) ? mask_score(s[k], row, step_keys[k]) : HIDDEN;
        s[k] = slot.number < tile.first.number || slot.number >= tile.end ? HIDDEN : score;
    }
}

// Of keys that no mask hides, those that do not exist.
void hide_missing_keys(Row row, Slot first) {
    if (LACKS_KEYS == 0) return;
    [[unroll]] for (uint k = 0; k < STEP; ++k) s[k] = step_has_key(row, first, k) ? s[k] : HIDDEN;
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
