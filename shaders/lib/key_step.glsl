// What the bodies that read through addresses do with the scores of a step's keys, for each of an invocation's rows.
// After lib/attention_bindings.glsl, lib/work.glsl, lib/mask.glsl, lib/score.glsl, lib/softmax.glsl, lib/states.glsl.
// Before: V_BLOCKS, blocks of four of a row's output that an invocation holds; row_of_tile.

vec4 sums[ROWS * V_BLOCKS];
float s[ROWS * STEP]; // scores of a step's keys, then their weights
SoftmaxState states[ROWS];

void bias_step(uint first_row, uint first_key) {
    if (!has(FEATURE_SOFTCAP) && !has(FEATURE_ALIBI)) return;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        Row row = row_of_tile(first_row, r);
        [[unroll]] for (uint k = 0; k < STEP; ++k) s[r * STEP + k] =
            bias_score(cap_score(s[r * STEP + k]), row, first_key + k);
    }
}

// Keys before `begin` were attended by an earlier step.
void mask_step(uint first_row, uint first_key, uint begin, uint end) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        Row row = row_of_tile(first_row, r);
        [[unroll]] for (uint k = 0; k < STEP; ++k) {
            uint key = first_key + k;
            float score = mask_score(s[r * STEP + k], row, min(key, parameters.kv_len - 1));
            s[r * STEP + k] = key < begin || key >= end ? HIDDEN : score;
        }
    }
}

// Of keys that no mask hides, those that do not exist.
void hide_missing_keys(uint batch, uint first_key) {
    if (PAGE_SIZE == 0) return;
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
        bool exists = key_exists(batch, min(first_key + k, parameters.kv_len - 1));
        [[unroll]] for (uint r = 0; r < ROWS; ++r) s[r * STEP + k] = exists ? s[r * STEP + k] : HIDDEN;
    }
}

// masked: whether a mask, `begin` or `end` hides any of the step's keys.
void hide_step(bool masked, uint first_row, uint first_key, uint begin, uint end) {
    if (masked)
        mask_step(first_row, first_key, begin, end);
    else
        hide_missing_keys(gl_WorkGroupID.z, first_key);
}

// Scores become weights; returns the rescaling of what the row summed before.
float soften_row(const uint r) {
    float maximum = states[r].maximum;
    [[unroll]] for (uint k = 0; k < STEP; ++k) maximum = max(maximum, s[r * STEP + k]);
    float rescale = exp2(states[r].maximum - maximum);
    float sum = 0.0;
    [[unroll]] for (uint k = 0; k < STEP; ++k) {
        s[r * STEP + k] = exp2(s[r * STEP + k] - maximum);
        sum += s[r * STEP + k];
    }
    states[r] = SoftmaxState(maximum, fma(states[r].sum, rescale, sum));
    return rescale;
}

bool sums_are_finite(const uint r) {
    const uvec4 exponent = uvec4(0x7f800000u); // all set: infinite or not a number
    uvec4 largest = uvec4(0);
    [[unroll]] for (uint d = 0; d < V_BLOCKS; ++d) largest = max(largest, floatBitsToUint(sums[r * V_BLOCKS + d]) & exponent);
    return all(lessThan(largest, exponent));
}
