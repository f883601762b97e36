// Which keys a query sees. After lib/work.glsl.

// Scores stay finite: not every device keeps infinities. A hidden key scores HIDDEN, a row maximum starts at
// LOWEST_MAXIMUM, and exp2(HIDDEN - LOWEST_MAXIMUM) is exactly 0.
const float HIDDEN = -3.0e38;
const float LOWEST_MAXIMUM = -1.0e38;

const int LARGEST_PAST = 0x20000000; // position + past + window must not overflow an int

// First and last + 1 of a range of keys.
struct KeyRange {
    uint begin;
    uint end;
};

// Keys that a sequence has.
uint sequence_keys(uint batch) {
    uint end = has(FEATURE_CU_SEQLENS_K) ? packed_keys(batch).y : parameters.kv_len;
    if (!has(FEATURE_KEY_LENGTHS)) return end;
    return uint(clamp(key_lengths[base_bytes(BINDING_KEY_LENGTHS) / 4 + batch], 0, int(end)));
}

int diagonal_offset(uint batch) {
    if (has(FEATURE_PAST_LENGTHS))
        return clamp(past_lengths[base_bytes(BINDING_PAST_LENGTHS) / 4 + batch], 0, LARGEST_PAST);
    if (has(FEATURE_BOTTOM_RIGHT)) return int(sequence_keys(batch)) - int(query_length(batch));
    return parameters.offset;
}

uint key_length(uint batch) {
    uint end = sequence_keys(batch);
    if (has(FEATURE_KEYS_TO_LAST_QUERY))
        end = min(end, uint(max(diagonal_offset(batch) + int(query_length(batch)), 0)));
    return has(FEATURE_SHORT_MASK) ? min(end, parameters.mask_len) : end;
}

uint clamp_key(int key, uint end) { return uint(clamp(key, 0, int(end))); }

// Keys outside it are hidden from every query position first .. last by the causal line, the window or the lengths.
KeyRange seen_by_any(uint batch, uint first, uint last) {
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

// Keys inside it are visible to all query positions first .. last, as far as they exist and block_mask has them; empty
// where a mask must be looked up key by key.
KeyRange seen_by_all(uint batch, uint first, uint last) {
    if (has(FEATURE_KEY_PADDING) || (MASK_FORMAT != FORMAT_NONE && !has(FEATURE_BLOCK_MASK))) return KeyRange(0, 0);
    uint end = key_length(batch);
    int offset = diagonal_offset(batch);
    KeyRange range = KeyRange(0, end);
    if (has(FEATURE_CAUSAL)) range.end = min(range.end, clamp_key(int(first) + offset + 1, end));
    if (has(FEATURE_WINDOW)) {
        range.begin = clamp_key(int(last) + offset - parameters.window_left, end);
        range.end = min(range.end, clamp_key(int(first) + offset + parameters.window_right + 1, end));
    }
    return range;
}

// Part `part` of the keys of a range, of `parts` that are a multiple of `granule` keys long, the last ones shorter or
// empty.
KeyRange part_of_range(KeyRange range, uint part, const uint parts, const uint granule) {
    uint size = (max(range.end, range.begin) - range.begin + parts * granule - 1) / (parts * granule) * granule;
    uint begin = min(range.begin + part * size, range.end);
    return KeyRange(begin, min(begin + size, range.end));
}

bool ignored_by_padding(uint batch, uint key) {
    uint byte_offset = base_bytes(BINDING_KEY_PADDING_MASK) + batch * parameters.key_padding_stride + key;
    return bitfieldExtract(key_padding_words[byte_offset / 4], int(byte_offset % 4) * 8, 8) != 0u;
}

bool hidden_by_position(uint batch, uint position, uint key) {
    int distance = int(key) - int(position) - diagonal_offset(batch);
    if (has(FEATURE_CAUSAL) && distance > 0) return true;
    return has(FEATURE_WINDOW) && (distance < -parameters.window_left || distance > parameters.window_right);
}

uint mask_element(Row row, uint key) {
    return row.batch * parameters.mask_strides[0] + row.query_head * parameters.mask_strides[1] +
           row.position * parameters.mask_strides[2] + key;
}

bool hidden_by_boolean_mask(Row row, uint key) {
    uint byte_offset = base_bytes(BINDING_ATTN_MASK) + mask_element(row, key);
    return bitfieldExtract(mask_words[byte_offset / 4], int(byte_offset % 4) * 8, 8) == 0u;
}

// What block_mask says of a block.
uint block_state(uint batch, uint query_head, uint query_block, uint key_block) {
    uint element = batch * parameters.block_strides[0] + query_head * parameters.block_strides[1] +
                   query_block * parameters.block_strides[2] + key_block;
    return block_mask[base_bytes(BINDING_BLOCK_MASK) / 4 + element];
}

// Some rows of a KV head, and some keys.
struct Tile {
    uint batch;
    uint kv_head;
    uint first_row;
    uint last_row;
    uint first_key;
    uint last_key;
};

// What a tile's blocks have in common.
struct Blocks {
    bool seen;  // some block is not hidden
    bool whole; // every block is visible without a look at attn_mask
};

Blocks blocks_of(Tile tile) {
    if (!has(FEATURE_BLOCK_MASK)) return Blocks(true, true);
    uint last_key = min(tile.last_key, parameters.kv_len - 1);
    uint heads = parameters.block_strides[1] == 0 ? 1 : GROUP;
    Blocks blocks = Blocks(false, true);
    for (uint head = 0; head < heads; ++head) {
        uint query_head = row_of_group(tile.batch, tile.kv_head, head).query_head;
        for (uint q = tile.first_row / GROUP / BLOCK_Q_LEN; q <= tile.last_row / GROUP / BLOCK_Q_LEN; ++q) {
            for (uint k = tile.first_key / BLOCK_KV_LEN; k <= last_key / BLOCK_KV_LEN; ++k) {
                uint state = block_state(tile.batch, query_head, q, k);
                blocks.seen = blocks.seen || state != BLOCK_HIDDEN;
                blocks.whole =
                    blocks.whole && (MASK_FORMAT == FORMAT_NONE ? state != BLOCK_HIDDEN : state == BLOCK_FULL);
            }
        }
    }
    return blocks;
}

// The first key from `key` on, and before `end`, whose block is not hidden from all the tile's rows; otherwise a later
// one.
uint next_seen_key(Tile tile, uint key, uint end) {
    if (!has(FEATURE_BLOCK_MASK)) return key;
    for (; key < end; key = (key / BLOCK_KV_LEN + 1) * BLOCK_KV_LEN) {
        tile.first_key = tile.last_key = key;
        if (blocks_of(tile).seen) break;
    }
    return key;
}

#define WORDS mask_words
#define BINDING BINDING_ATTN_MASK
#define LOAD load_mask
#define LOAD4 load_mask4
#define LOAD_QUANTISED load_quantised_mask
#include "load.glsl"

// Adds the additive mask and hides the key where any mask does. `score` is in units of log 2.
float mask_score(float score, Row row, uint key) {
    if (key >= key_length(row.batch) || hidden_by_position(row.batch, row.position, key)) return HIDDEN;
    if (!key_exists(row.batch, key)) return HIDDEN;
    if (has(FEATURE_KEY_PADDING) && ignored_by_padding(row.batch, key)) return HIDDEN;
    if (has(FEATURE_BLOCK_MASK)) {
        uint state = block_state(row.batch, row.query_head, row.position / BLOCK_Q_LEN, key / BLOCK_KV_LEN);
        if (state == BLOCK_HIDDEN) return HIDDEN;
        if (state == BLOCK_FULL) return score;
    }
    if (MASK_FORMAT == FORMAT_NONE) return score;
    if (MASK_FORMAT == FORMAT_BOOL) return hidden_by_boolean_mask(row, key) ? HIDDEN : score;
    float added = load_mask(MASK_FORMAT, mask_element(row, key));
    return added < LOWEST_MAXIMUM ? HIDDEN : score + added * LOG2_E;
}
