// A query row's beginning and end in the bodies that read K and V through addresses, and its whole attention key by
// key, slow and careful: what they fall back to where a hidden key's value is not a number.
// After lib/attention_bindings.glsl, lib/work.glsl, lib/mask.glsl, lib/score.glsl, lib/softmax.glsl, lib/states.glsl,
// lib/addressed_kv.glsl.

// Loops over head dims are kept as loops: unrolled, a CPU driver compiles them for many seconds.
const uint QUERY_BLOCKS = HEAD_DIM / 4;
const uint BLOCKS_OF_TRIP = BLOCKS_OF_FLASH_ROW_TRIP;

// with room for whole trips, which repeat the last block: in query for nothing
vec4 query[(QUERY_BLOCKS + BLOCKS_OF_TRIP - 1) / BLOCKS_OF_TRIP * BLOCKS_OF_TRIP];
vec4 accumulator[(VALUE_BLOCKS + BLOCKS_OF_TRIP - 1) / BLOCKS_OF_TRIP * BLOCKS_OF_TRIP];

void load_query_row(Row row) {
    uint element = query_element(row);
    [[dont_unroll]] for (uint block = 0; block < HEAD_DIM / 4; ++block) query[block] =
        parameters.scale_log2 *
        load_query4(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), element + 4 * block * QUERY_DIM_STRIDE, QUERY_DIM_STRIDE);
    for (uint block = HEAD_DIM / 4; block < query.length(); ++block) query[block] = vec4(0);
}

// Q K^T of the row and a key.
float score_key(uvec2 address) {
    float sum = 0.0;
    [[dont_unroll]] for (uint first = 0; first < QUERY_BLOCKS; first += BLOCKS_OF_TRIP)
        [[unroll]] for (uint i = 0; i < BLOCKS_OF_TRIP; ++i) sum +=
        dot(query[first + i], load_own_block(ADDRESSED_KEY_FORMAT, address, min(first + i, QUERY_BLOCKS - 1)));
    return sum;
}

void attend_key(Row row, uint key, inout SoftmaxState state) {
    float score = mask_score(bias_score(cap_score(score_key(key_address(row, key))), row, key), row, key);
    if (score == HIDDEN) return; // its value is not looked at, whatever it is
    float maximum = max(state.maximum, score);
    float rescale = exp2(state.maximum - maximum);
    float weight = exp2(score - maximum);
    state = SoftmaxState(maximum, state.sum * rescale + weight);
    uvec2 address = value_address(row, key);
    [[dont_unroll]] for (uint first = 0; first < VALUE_BLOCKS; first += BLOCKS_OF_TRIP)
        [[unroll]] for (uint i = 0; i < BLOCKS_OF_TRIP; ++i) accumulator[first + i] =
            rescale * accumulator[first + i] +
            weight * load_own_block(ADDRESSED_VALUE_FORMAT, address, min(first + i, VALUE_BLOCKS - 1));
}

// From the state that waits in scores, or from nothing.
SoftmaxState start_row(Row row, uint part) {
    bool resumes = has(FEATURE_SPLIT_KEYS) && push.first_key > 0;
    uint element = state_element(row, part);
    [[dont_unroll]] for (uint block = 0; block < VALUE_BLOCKS; ++block) {
        uint at = element + STATE_HEADER + 4 * block;
        accumulator[block] = vec4(0);
        if (resumes) accumulator[block] = vec4(scores[at], scores[at + 1], scores[at + 2], scores[at + 3]);
    }
    if (!resumes) return softmax_empty();
    return SoftmaxState(scores[element], scores[element + 1]);
}

void store_row(Row row, float scale, uint first, const uint blocks) {
    uint element = output_element(row) + 4 * first * OUTPUT_DIM_STRIDE;
    const bool pairs = has(FEATURE_OUTPUT_PAIRS);
    [[dont_unroll]] for (uint dim = 0; dim < 4 * blocks; dim += 2) {
        vec4 block = accumulator[dim / 4] * scale;
        store_output2(OUTPUT_FORMAT, pairs, element + dim * OUTPUT_DIM_STRIDE, OUTPUT_DIM_STRIDE,
                      dim % 4 == 0 ? block.xy : block.zw);
    }
}

void store_state(SoftmaxState state, Row row, uint part, uint first, const uint blocks) {
    uint element = state_element(row, part);
    if (first == 0) {
        scores[element] = state.maximum;
        scores[element + 1] = state.sum;
    }
    [[dont_unroll]] for (uint dim = 0; dim < 4 * blocks; ++dim) scores[element + STATE_HEADER + 4 * first + dim] =
        accumulator[dim / 4][dim % 4];
}

// The row's keys are all attended, or all of a part's: to the output, or to where the state waits. The accumulator
// holds `blocks` blocks of the row from `first` on; who holds its first writes what there is one of.
void finish_row(SoftmaxState state, Row row, uint part, uint first, const uint blocks) {
    if (PARTS > 1 || (has(FEATURE_SPLIT_KEYS) && push.last_key < parameters.kv_len)) {
        store_state(state, row, part, first, blocks);
        return;
    }
    float rescale = softmax_denominator_scale(state, row);
    store_row(row, state.sum > 0.0 ? rescale / state.sum : 0.0, first, blocks);
    if (first == 0) store_log_sum_exp(state, row);
}

// From the state that waits in scores over the range's keys.
SoftmaxState attend_keys(Row row, uint part, KeyRange range) {
    load_query_row(row);
    SoftmaxState state = start_row(row, part);
    for (uint key = range.begin; key < range.end; ++key) attend_key(row, key, state);
    return state;
}

// All of it, to the output or back to scores.
void attend_row(Row row, uint part, KeyRange range) {
    finish_row(attend_keys(row, part, range), row, part, 0, VALUE_BLOCKS);
}
