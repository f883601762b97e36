// Masks that are looked up key by key: key_padding_mask, attn_mask and block_mask.
#ifndef MASKS_GLSL
#define MASKS_GLSL

#include "attention/rows.glsl"

layout(set = 0, binding = BINDING_KEY_PADDING_MASK, std430) readonly buffer KeyPaddingBuffer {
    uint key_padding_words[];
};
layout(set = 0, binding = BINDING_BLOCK_MASK, std430) readonly buffer BlockMaskBuffer { uint block_mask[]; };

#define TENSOR mask
#define TENSOR_BINDING BINDING_ATTN_MASK
#include "common/tensor.glsl"

bool hidden_by_padding(uint batch, uint key) {
    if (!has(FEATURE_KEY_PADDING_MASK)) return false;
    uint byte_offset = base_bytes(BINDING_KEY_PADDING_MASK) + batch * parameters.key_padding_stride + key;
    return bitfieldExtract(key_padding_words[byte_offset / 4], int(byte_offset % 4) * 8, 8) != 0u;
}

uint mask_element(Row row, uint key) {
    return row.batch * parameters.attn_mask_strides[0] + row.query_head * parameters.attn_mask_strides[1] +
           row.position * parameters.attn_mask_strides[2] + key;
}

bool hidden_by_boolean_mask(Row row, uint key) {
    uint byte_offset = base_bytes(BINDING_ATTN_MASK) + mask_element(row, key);
    return bitfieldExtract(mask_words[byte_offset / 4], int(byte_offset % 4) * 8, 8) == 0u;
}

// Adds attn_mask, or hides the key where it says so.
float apply_attn_mask(float score, Row row, uint key) {
    if (MASK_FORMAT == FORMAT_NONE) return score;
    if (MASK_FORMAT == FORMAT_BOOL) return hidden_by_boolean_mask(row, key) ? HIDDEN : score;
    float added = mask_load(MASK_FORMAT, mask_element(row, key));
    return added < LOWEST_BIAS ? HIDDEN : score + added * LOG2_E;
}

uint block_state(uint batch, uint query_head, uint query_block, uint key_block) {
    uint element = batch * parameters.block_mask_strides[0] + query_head * parameters.block_mask_strides[1] +
                   query_block * parameters.block_mask_strides[2] + key_block;
    return block_mask[base_bytes(BINDING_BLOCK_MASK) / 4 + element];
}

// attn_mask where block_mask does not decide: a full block is visible, a partial one needs a look at attn_mask.
float apply_masks(float score, Row row, uint key) {
    if (!has(FEATURE_BLOCK_MASK)) return apply_attn_mask(score, row, key);
    uint state = block_state(row.batch, row.query_head, row.position / BLOCK_Q_LEN, key / BLOCK_KV_LEN);
    if (state == BLOCK_HIDDEN) return HIDDEN;
    return state == BLOCK_FULL ? score : apply_attn_mask(score, row, key);
}

// Whether each key must be looked up in a mask: block_mask would say it of whole tiles.
bool masked_by_key() {
    return has(FEATURE_KEY_PADDING_MASK) || (MASK_FORMAT != FORMAT_NONE && !has(FEATURE_BLOCK_MASK));
}

// What the blocks of a tile of rows and keys have in common.
struct Blocks {
    bool seen;  // some block is not hidden
    bool whole; // every block is visible without a look at attn_mask
};

Blocks blocks_of(RowTile rows, uint first_key, uint last_key) {
    if (!has(FEATURE_BLOCK_MASK)) return Blocks(true, true);
    last_key = min(last_key, parameters.kv_len - 1);
    uint heads = parameters.block_mask_strides[1] == 0 ? 1 : GROUP;
    Blocks blocks = Blocks(false, true);
    for (uint head = 0; head < heads; ++head) {
        uint query_head = row_of_group(rows.batch, rows.kv_head, head).query_head;
        for (uint q = rows.first / GROUP / BLOCK_Q_LEN; q <= last_row(rows) / GROUP / BLOCK_Q_LEN; ++q) {
            for (uint k = first_key / BLOCK_KV_LEN; k <= last_key / BLOCK_KV_LEN; ++k) {
                uint state = block_state(rows.batch, query_head, q, k);
                blocks.seen = blocks.seen || state != BLOCK_HIDDEN;
                blocks.whole =
                    blocks.whole && (MASK_FORMAT == FORMAT_NONE ? state != BLOCK_HIDDEN : state == BLOCK_FULL);
            }
        }
    }
    return blocks;
}

#endif
