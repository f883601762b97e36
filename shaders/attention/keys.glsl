// Where keys are: dense, packed or in pages. Device buffers are not trusted: whatever they say, rows stay inside the
// tensors.
#ifndef KEYS_GLSL
#define KEYS_GLSL

#include "attention/rows.glsl"

layout(set = 0, binding = BINDING_CU_SEQLENS_K, std430) readonly buffer CuSeqlensKBuffer { int cu_seqlens_k[]; };
layout(set = 0, binding = BINDING_KEY_LENGTHS, std430) readonly buffer KeyLengthsBuffer { int key_lengths[]; };
layout(set = 0, binding = BINDING_BLOCK_TABLE, std430) readonly buffer BlockTableBuffer { int block_table[]; };

uvec2 packed_keys(uint batch) {
    uint element = base_bytes(BINDING_CU_SEQLENS_K) / 4 + batch;
    uvec2 rows = packed_rows(cu_seqlens_k[element], cu_seqlens_k[element + 1], parameters.kv_total);
    return uvec2(rows.x, min(rows.y, parameters.kv_len));
}

// Keys that a sequence has.
uint sequence_keys(uint batch) {
    uint end = has(FEATURE_CU_SEQLENS_K) ? packed_keys(batch).y : parameters.kv_len;
    if (!has(FEATURE_KEY_LENGTHS)) return end;
    return uint(clamp(key_lengths[base_bytes(BINDING_KEY_LENGTHS) / 4 + batch], 0, int(end)));
}

// The page of a key, as the block table has it.
int page_of_key(uint batch, uint key) {
    uint entry = batch * parameters.table_pages + min(key / max(PAGE_SIZE, 1), parameters.table_pages - 1);
    return block_table[base_bytes(BINDING_BLOCK_TABLE) / 4 + entry];
}

// (outermost index, row) of K and V: a batch entry, or a page. Of a key that does not exist, some row of the pool.
uvec2 key_row(uint batch, uint key) {
    if (has(FEATURE_CU_SEQLENS_K)) return uvec2(0, min(packed_keys(batch).x + key, parameters.kv_total - 1));
    if (PAGE_SIZE == 0) return uvec2(batch, key);
    return uvec2(clamp(page_of_key(batch, key), 0, int(parameters.pool_pages) - 1), key % max(PAGE_SIZE, 1));
}

// A page outside the pool has no keys.
bool key_exists(uint batch, uint key) {
    return PAGE_SIZE == 0 || uint(page_of_key(batch, key)) < parameters.pool_pages;
}

// Of keys first .. end - 1, all of them.
bool keys_exist(uint batch, uint first, uint end) {
    if (PAGE_SIZE == 0) return true;
    bool exist = true;
    for (uint key = first; key < end; key = (key / max(PAGE_SIZE, 1) + 1) * PAGE_SIZE)
        exist = exist && key_exists(batch, key);
    return exist;
}

#endif
