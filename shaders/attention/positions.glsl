// Positions of queries among the keys: the causal line, the sliding window, trees and the lengths, by the key and by the range.
#ifndef POSITIONS_GLSL
#define POSITIONS_GLSL

#include "attention/keys.glsl"

layout(set = 0, binding = BINDING_PAST_LENGTHS, std430) readonly buffer PastLengthsBuffer { int past_lengths[]; };

layout(set = 0, binding = BINDING_TREE_MASK, std430) readonly buffer TreeMaskBuffer { uint tree_mask[]; };

const int LARGEST_PAST = 0x20000000; // position + past + window must not overflow an int

// Query position p stands at key p + diagonal_offset.
int diagonal_offset(uint batch) {
    if (has(FEATURE_PAST_LENGTHS))
        return clamp(past_lengths[base_bytes(BINDING_PAST_LENGTHS) / 4 + batch], 0, LARGEST_PAST);
    if (has(FEATURE_BOTTOM_RIGHT)) return int(sequence_keys(batch)) - int(query_length(batch));
    return parameters.offset;
}

// The first of the queries' own keys, as tree_mask counts them. Negative where a sequence has fewer keys than queries.
int first_own_key(uint batch) {
    if (has_more(MORE_FEATURE_OWN_KEYS_LAST)) return int(sequence_keys(batch)) - int(query_length(batch));
    return diagonal_offset(batch);
}

// Keys from here on are hidden from every query.
uint key_length(uint batch) {
    uint end = sequence_keys(batch);
    if (HAS_TREES) end = min(end, uint(max(first_own_key(batch) + int(query_length(batch)), 0)));
    if (has(FEATURE_KEYS_TO_LAST_QUERY))
        end = min(end, uint(max(diagonal_offset(batch) + int(query_length(batch)), 0)));
    return has(FEATURE_SHORT_MASK) ? min(end, parameters.mask_len) : end;
}

uint clamp_key(int key, uint end) { return uint(clamp(key, 0, int(end))); }

// Not 0: positions hide keys from some rows.
const uint HIDES_BY_POSITION = FEATURES & (FEATURE_CAUSAL | FEATURE_WINDOW);

bool hidden_by_position(uint batch, uint position, Key key) {
    int distance = int(key.number) - int(position) - diagonal_offset(batch);
    if (has(FEATURE_CAUSAL) && distance > 0) return true;
    return has(FEATURE_WINDOW) && (distance < -parameters.window_left || distance > parameters.window_right);
}

// Whether tree_mask hides one of the queries' own keys, or a later one.
bool hidden_by_tree(Row row, Key key) {
    if (!HAS_TREES) return false;
    int own = int(key.number) - first_own_key(row.batch);
    uint tree =
        has(FEATURE_CU_SEQLENS_Q) ? query_row(row.batch, row.position) : row.batch * parameters.q_len + row.position;
    uint word = min(uint(max(own, 0)) / 32, parameters.tree_words - 1);
    uint bits = tree_mask[base_bytes(BINDING_TREE_MASK) / 4 + tree * parameters.tree_words + word];
    return own >= 0 && bitfieldExtract(bits, own & 31, 1) == 0u;
}

// The keys that positions and lengths leave, the first to query position `first`, the last to query position `last`.
KeyRange range_between(uint batch, uint first, uint last) {
    uint end = key_length(batch);
    int offset = diagonal_offset(batch);
    KeyRange range = KeyRange(0, end);
    if (has(FEATURE_CAUSAL)) range.end = min(range.end, clamp_key(int(last) + offset + 1, end));
    if (has(FEATURE_WINDOW)) {
        range.begin = clamp_key(int(first) + offset - parameters.window_left, end);
        range.end = min(range.end, clamp_key(int(last) + offset + parameters.window_right + 1, end));
    }
    return range;
}

#endif
