// A query row's attention over a range of keys, one invocation a row: the running output in private arrays, K and V
// through the bound buffers, every layout and mask. What the bodies that read through addresses fall back to.
// After lib/attention_bindings.glsl, lib/work.glsl, lib/mask.glsl, lib/score.glsl, lib/softmax.glsl, lib/states.glsl.

// Loops over head dims are kept as loops: unrolled, a CPU driver compiles them for many seconds.
const uint KEYS = KEYS_OF_FLASH_STEP;
const uint QUERY_BLOCKS = (HEAD_DIM + 3) / 4;

vec4 query[QUERY_BLOCKS];
vec4 accumulator[VALUE_BLOCKS];

void load_query_row(Row row) {
    uint element = query_element(row);
    [[dont_unroll]] for (uint block = 0; block < HEAD_DIM / 4; ++block) query[block] =
        parameters.scale_log2 *
        load_query4(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), element + 4 * block * QUERY_DIM_STRIDE, QUERY_DIM_STRIDE);
    if (HEAD_DIM % 4 != 0) {
        vec4 rest = vec4(0);
        for (uint i = 0; i < HEAD_DIM % 4; ++i)
            rest[i] = load_query(QUERY_FORMAT, element + (HEAD_DIM / 4 * 4 + i) * QUERY_DIM_STRIDE);
        query[QUERY_BLOCKS - 1] = parameters.scale_log2 * rest;
    }
}

// Q K^T of the row and four keys, whose K rows start at `elements`.
vec4 score_keys(uvec4 elements) {
    vec4 sums = vec4(0);
    const bool pairs = has(FEATURE_KEY_PAIRS);
    [[dont_unroll]] for (uint block = 0; block < HEAD_DIM / 4; ++block) {
        vec4 q = query[block];
        uvec4 at = elements + 4 * block * KEY_DIM_STRIDE;
        sums.x += dot(q, load_key4(KEY_FORMAT, pairs, at.x, KEY_DIM_STRIDE));
        sums.y += dot(q, load_key4(KEY_FORMAT, pairs, at.y, KEY_DIM_STRIDE));
        sums.z += dot(q, load_key4(KEY_FORMAT, pairs, at.z, KEY_DIM_STRIDE));
        sums.w += dot(q, load_key4(KEY_FORMAT, pairs, at.w, KEY_DIM_STRIDE));
    }
    for (uint i = 0; i < HEAD_DIM % 4; ++i) {
        uvec4 at = elements + (HEAD_DIM / 4 * 4 + i) * KEY_DIM_STRIDE;
        sums += query[QUERY_BLOCKS - 1][i] * vec4(load_key(KEY_FORMAT, at.x), load_key(KEY_FORMAT, at.y),
                                                  load_key(KEY_FORMAT, at.z), load_key(KEY_FORMAT, at.w));
    }
    return sums;
}

// weight * value, and 0 for a hidden key even where its value is not a number
vec4 weighted(float weight, vec4 value) { return weight > 0.0 ? weight * value : vec4(0); }

vec4 load_value_block(uint element, uint block) {
    if (4 * block + 4 <= V_HEAD_DIM)
        return load_value4(VALUE_FORMAT, has(FEATURE_VALUE_PAIRS), element + 4 * block * VALUE_DIM_STRIDE,
                           VALUE_DIM_STRIDE);
    vec4 value = vec4(0);
    for (uint i = 0; i < V_HEAD_DIM % 4; ++i)
        value[i] = load_value(VALUE_FORMAT, element + (4 * block + i) * VALUE_DIM_STRIDE);
    return value;
}

void accumulate_values(uvec4 elements, vec4 weights, float rescale, bool all_visible) {
    [[dont_unroll]] for (uint block = 0; block < VALUE_BLOCKS; ++block) {
        vec4 a = load_value_block(elements.x, block), b = load_value_block(elements.y, block);
        vec4 c = load_value_block(elements.z, block), d = load_value_block(elements.w, block);
        vec4 sum = rescale * accumulator[block];
        accumulator[block] = all_visible ? sum + weights.x * a + weights.y * b + weights.z * c + weights.w * d
                                         : sum + weighted(weights.x, a) + weighted(weights.y, b) +
                                               weighted(weights.z, c) + weighted(weights.w, d);
    }
}

vec4 finish_scores(vec4 raw, Row row, uvec4 keys, bool all_visible) {
    for (uint i = 0; i < KEYS; ++i) {
        raw[i] = bias_score(cap_score(raw[i]), row, keys[i]);
        if (!all_visible) raw[i] = mask_score(raw[i], row, keys[i]);
    }
    return raw;
}

void attend_keys(Row row, uint first, KeyRange range, bool all_visible, inout SoftmaxState state) {
    uvec4 keys = first + uvec4(0, 1, 2, 3);
    uvec4 loaded = min(keys, uvec4(range.end - 1));
    vec4 s = finish_scores(score_keys(uvec4(key_element(row, loaded.x), key_element(row, loaded.y),
                                            key_element(row, loaded.z), key_element(row, loaded.w))),
                           row, keys, all_visible);
    s = mix(s, vec4(HIDDEN), greaterThanEqual(keys, uvec4(range.end)));
    float maximum = max(max(max(s.x, s.y), max(s.z, s.w)), state.maximum);
    float rescale = exp2(state.maximum - maximum);
    vec4 weights = exp2(s - maximum);
    state = SoftmaxState(maximum, state.sum * rescale + (weights.x + weights.y) + (weights.z + weights.w));
    accumulate_values(uvec4(value_element(row, loaded.x), value_element(row, loaded.y), value_element(row, loaded.z),
                            value_element(row, loaded.w)),
                      weights, rescale, all_visible);
}

void store_row(Row row, float scale) {
    uint element = output_element(row);
    const bool pairs = has(FEATURE_OUTPUT_PAIRS);
    [[dont_unroll]] for (uint dim = 0; dim + 2 <= V_HEAD_DIM; dim += 2) {
        vec4 block = accumulator[dim / 4] * scale;
        store_output2(OUTPUT_FORMAT, pairs, element + dim * OUTPUT_DIM_STRIDE, OUTPUT_DIM_STRIDE,
                      dim % 4 == 0 ? block.xy : block.zw);
    }
    if (V_HEAD_DIM % 2 != 0)
        store_output(OUTPUT_FORMAT, element + (V_HEAD_DIM - 1) * OUTPUT_DIM_STRIDE,
                     accumulator[VALUE_BLOCKS - 1][(V_HEAD_DIM - 1) % 4] * scale);
}

SoftmaxState start_row(Row row, uint part) {
    bool resumes = has(FEATURE_SPLIT_KEYS) && push.first_key > 0;
    uint element = state_element(row, part);
    [[dont_unroll]] for (uint block = 0; block < VALUE_BLOCKS; ++block) {
        accumulator[block] = vec4(0);
        for (uint i = 0; i < 4; ++i)
            if (resumes) accumulator[block][i] = scores[element + STATE_HEADER + 4 * block + i];
    }
    if (!resumes) return softmax_empty();
    return SoftmaxState(scores[element], scores[element + 1]);
}

void store_state(SoftmaxState state, Row row, uint part) {
    uint element = state_element(row, part);
    scores[element] = state.maximum;
    scores[element + 1] = state.sum;
    [[dont_unroll]] for (uint dim = 0; dim < 4 * VALUE_BLOCKS; ++dim) scores[element + STATE_HEADER + dim] =
        accumulator[dim / 4][dim % 4];
}

// The row's keys are all attended, or all of a part's: to the output, or to where the state waits.
void finish_row(SoftmaxState state, Row row, uint part) {
    if (PARTS > 1 || (has(FEATURE_SPLIT_KEYS) && push.last_key < parameters.kv_len)) {
        store_state(state, row, part);
        return;
    }
    float rescale = softmax_denominator_scale(state, row);
    store_row(row, state.sum > 0.0 ? rescale / state.sum : 0.0);
    store_log_sum_exp(state, row);
}

// All of it: from the state that waits in scores, over the range's keys, to the output or back to scores.
void attend_row(Row row, uint part, KeyRange range, KeyRange full, bool writes) {
    load_query_row(row);
    SoftmaxState state = start_row(row, part);
    for (uint key = range.begin; key < range.end; key += KEYS)
        attend_keys(row, key, range, key >= full.begin && key + KEYS <= full.end, state);
    if (writes) finish_row(state, row, part);
}
