// Masks that are looked up key by key: key_padding_mask, attn_mask, the user's mask_mod and block_mask.
#ifndef MASKS_GLSL
#define MASKS_GLSL

#include "attention/keys.glsl"
#include "attention/score_terms.glsl"
#ifdef MASK_MOD
#include "attention/functions.glsl"
#define LOOKED_UP true
#define NOT_LOOKED_UP false
#else // attn_mask alone
#define LOOKED_UP MASK_FORMAT != FORMAT_NONE
#define NOT_LOOKED_UP MASK_FORMAT == FORMAT_NONE
#endif

layout(set = 0, binding = BINDING_KEY_PADDING_MASK, std430) readonly buffer KeyPaddingBuffer {
    uint key_padding_words[];
};
layout(set = 0, binding = BINDING_BLOCK_MASK, std430) readonly buffer BlockMaskBuffer { uint block_mask[]; };

#define TENSOR mask
#define TENSOR_BINDING BINDING_ATTN_MASK
#include "common/tensor.glsl"

bool hidden_by_padding(uint batch, Key key) {
    if (!has(FEATURE_KEY_PADDING_MASK)) return false;
    uint byte_offset = base_bytes(BINDING_KEY_PADDING_MASK) + batch * parameters.key_padding_stride + key.number;
    return bitfieldExtract(key_padding_words[byte_offset / 4], int(byte_offset % 4) * 8, 8) != 0u;
}

uint mask_element(Row row, Key key) {
    uint entry = row.batch, head = row.query_head;
    if (has_more(MORE_FEATURE_MASK_IN_TURN)) {
        entry = (parameters.first_batch + entry) % parameters.mask_entries;
        head = (parameters.first_query_head + head) % parameters.mask_heads;
    }
    return entry * parameters.attn_mask_strides[0] + head * parameters.attn_mask_strides[1] +
           row.position * parameters.attn_mask_strides[2] + key.number;
}

bool hidden_by_boolean_mask(Row row, Key key) {
    uint byte_offset = base_bytes(BINDING_ATTN_MASK) + mask_element(row, key);
    return bitfieldExtract(mask_words[byte_offset / 4], int(byte_offset % 4) * 8, 8) == 0u;
}

// Adds attn_mask, times its head's slope where problems have it so, or hides the key where it or mask_mod says so.
float look_up_masks(float score, Row row, Key key) {
#ifdef MASK_MOD
    if (hidden_by_function(row, key)) return HIDDEN;
#endif
    if (MASK_FORMAT == FORMAT_NONE) return score;
    if (MASK_FORMAT == FORMAT_BOOL) return hidden_by_boolean_mask(row, key) ? HIDDEN : score;
    float added = mask_load(MASK_FORMAT, mask_element(row, key));
    if (!has_more(MORE_FEATURE_TIMES_SLOPES)) return added < LOWEST_BIAS ? HIDDEN : score + added * LOG2_E;
    float product = added * slope_log2(row);
    return added < LOWEST_BIAS || product < LOWEST_BIAS ? HIDDEN : score + product;
}

uint block_state(uint batch, uint query_head, uint query_block, uint key_block) {
    uint element = batch * parameters.block_mask_strides[0] + query_head * parameters.block_mask_strides[1] +
                   query_block * parameters.block_mask_strides[2] + key_block;
    return block_mask[base_bytes(BINDING_BLOCK_MASK) / 4 + element];
}

// The others where block_mask does not decide: a full block is visible, a partial one needs a look at them.
float apply_masks(float score, Row row, Key key) {
    if (!has(FEATURE_BLOCK_MASK)) return look_up_masks(score, row, key);
    uint state = block_state(row.batch, row.query_head, row.position / BLOCK_Q_LEN, key.number / BLOCK_KV_LEN);
    if (state == BLOCK_HIDDEN) return HIDDEN;
    return state == BLOCK_FULL ? score : look_up_masks(score, row, key);
}

// Whether each key must be looked up in a mask: block_mask would say it of whole tiles.
bool masked_by_key() { return has(FEATURE_KEY_PADDING_MASK) || (LOOKED_UP && !has(FEATURE_BLOCK_MASK)); }

// What all the rows of a tile see of some keys.
struct Sight {
    uint first; // keys before it are hidden from all rows; where those are all, their end or a key beyond it
    bool whole; // every row sees every key
};

// Of block_mask; whole: without a look at other masks.
Sight sight_of_blocks(RowTile rows, KeyRange keys) {
    if (!has(FEATURE_BLOCK_MASK)) return Sight(keys.begin, true);
    uint begin = keys.begin / BLOCK_KV_LEN, last = (min(keys.end, parameters.kv_len) - 1) / BLOCK_KV_LEN;
    uint heads = parameters.block_mask_strides[1] == 0 ? 1 : GROUP;
    uint first = last + 1; // block
    bool whole = true;
    for (uint head = 0; head < heads; ++head) {
        uint query_head = row_of_group(rows.batch, rows.kv_head, head).query_head;
        for (uint q = rows.first / GROUP / BLOCK_Q_LEN; q <= last_row(rows) / GROUP / BLOCK_Q_LEN; ++q) {
            for (uint k = begin; k <= last; ++k) {
                uint state = block_state(rows.batch, query_head, q, k);
                if (state != BLOCK_HIDDEN) first = min(first, k);
                whole = whole && (NOT_LOOKED_UP ? state != BLOCK_HIDDEN : state == BLOCK_FULL);
            }
        }
    }
    return Sight(max(first * BLOCK_KV_LEN, keys.begin), whole);
}

#endif
