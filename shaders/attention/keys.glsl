// Where keys are: dense, packed or in pages. Kernels go over the slots of a walk; which key a slot is, and where its row
// lies, this file alone knows. Device buffers are not trusted: whatever they say, rows stay inside the tensors.
#ifndef KEYS_GLSL
#define KEYS_GLSL

#include "attention/rows.glsl"

layout(set = 0, binding = BINDING_CU_SEQLENS_K, std430) readonly buffer CuSeqlensKBuffer { int cu_seqlens_k[]; };
layout(set = 0, binding = BINDING_KEY_LENGTHS, std430) readonly buffer KeyLengthsBuffer { int key_lengths[]; };
layout(set = 0, binding = BINDING_BLOCK_TABLE, std430) readonly buffer BlockTableBuffer { int block_table[]; };

// Each list ascending, entries that name nothing last: see shaders/operators/sort_lists.comp.
layout(set = 0, binding = BINDING_KEY_INDICES, std430) readonly buffer KeyIndicesBuffer { uint key_indices[]; };

layout(set = 0, binding = BINDING_KEY_SCALES, std430) readonly buffer KeyScalesBuffer { float scales_of_keys[]; };
layout(set = 0, binding = BINDING_VALUE_SCALES, std430) readonly buffer ValueScalesBuffer { float scales_of_values[]; };

// The n-th step of a walk over a sequence's keys, or over a list of them: 0 .. all_slots() - 1. A type of its own, so that none is passed
// as a Key.
struct Slot {
    uint number;
};

// A key of a sequence, as masks and positions count it: 0 .. kv_len - 1.
struct Key {
    uint number;
};

// Slots, or keys, begin .. end - 1.
struct SlotRange {
    uint begin;
    uint end;
};
struct KeyRange {
    uint begin;
    uint end;
};

Slot advance(Slot slot, uint count) { return Slot(slot.number + count); }

// The first element of the list of a KV head and a query position.
uint list_element(uint batch, uint kv_head, uint position) {
    uint entry = has(FEATURE_CU_SEQLENS_Q) ? 0 : batch;
    return base_bytes(BINDING_KEY_INDICES) / 4 + entry * parameters.key_indices_strides[0] +
           kv_head * parameters.key_indices_strides[1] + query_row(batch, position) * parameters.key_indices_strides[2];
}

uint list_of_row(Row row) { return list_element(row.batch, row.kv_head, row.position); }
uint list_of_tile(RowTile rows) { return list_element(rows.batch, rows.kv_head, rows.first / GROUP); }

// The key of a slot of a list, or a larger number than any key's: it names nothing.
uint listed_key(uint list, uint slot) {
    uint block = key_indices[list + min(slot / KEY_BLOCK_LEN, parameters.key_indices_len - 1)];
    return min(block, parameters.kv_len / KEY_BLOCK_LEN + 1) * KEY_BLOCK_LEN + slot % KEY_BLOCK_LEN;
}

// The first entry of a list that names the block or a later one.
uint first_entry_from(uint list, uint block) {
    uint low = 0, high = parameters.key_indices_len;
    while (low < high) {
        uint middle = (low + high) / 2;
        if (key_indices[list + middle] < block)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The first slot of a list of which the key is `key` or a later one.
uint first_slot_from(uint list, uint key) {
    uint low = first_entry_from(list, key / KEY_BLOCK_LEN);
    bool within = low < parameters.key_indices_len && key_indices[list + low] == key / KEY_BLOCK_LEN;
    return low * KEY_BLOCK_LEN + (within ? key % KEY_BLOCK_LEN : 0);
}

Key key_of_slot(Row row, Slot slot) {
    if (!LISTS_KEYS) return Key(slot.number);
    return Key(min(listed_key(list_of_row(row), slot.number), parameters.kv_len - 1));
}

// Around them: the slots have no key outside it. Slots of several entries go from block to block, and to the same block again where
// it is listed twice.
KeyRange keys_around(RowTile rows, SlotRange slots) {
    if (!LISTS_KEYS) return KeyRange(slots.begin, slots.end);
    uint list = list_of_tile(rows), first = slots.begin, last = min(slots.end, all_slots()) - 1;
    if (first / KEY_BLOCK_LEN != last / KEY_BLOCK_LEN) {
        first = first / KEY_BLOCK_LEN * KEY_BLOCK_LEN;
        last = last / KEY_BLOCK_LEN * KEY_BLOCK_LEN + (KEY_BLOCK_LEN - 1);
    }
    return KeyRange(min(listed_key(list, first), parameters.kv_len - 1),
                    min(listed_key(list, last), parameters.kv_len - 1) + 1);
}

// A block that is listed twice, and of which some keys are outside, is inside from its first slot to its last.
SlotRange slots_around(RowTile rows, KeyRange keys) {
    if (!LISTS_KEYS) return SlotRange(keys.begin, keys.end);
    uint list = list_of_tile(rows), beyond = (keys.end + KEY_BLOCK_LEN - 1) / KEY_BLOCK_LEN * KEY_BLOCK_LEN;
    return SlotRange(first_slot_from(list, keys.begin), first_slot_from(list, beyond));
}

// Slots that have no other keys.
SlotRange slots_within(RowTile rows, KeyRange keys) {
    if (!LISTS_KEYS) return SlotRange(keys.begin, keys.end);
    uint list = list_of_tile(rows), first = (keys.begin + KEY_BLOCK_LEN - 1) / KEY_BLOCK_LEN * KEY_BLOCK_LEN;
    return SlotRange(first_slot_from(list, first), first_slot_from(list, keys.end / KEY_BLOCK_LEN * KEY_BLOCK_LEN));
}

uvec2 packed_keys(uint batch) {
    uint element = base_bytes(BINDING_CU_SEQLENS_K) / 4 + batch;
    uvec2 rows = packed_rows(cu_seqlens_k[element], cu_seqlens_k[element + 1], parameters.kv_total);
    return uvec2(rows.x, min(rows.y, parameters.kv_len));
}

// Keys of a sequence that have places of their own, whatever key_lengths says.
uint keys_in_memory(uint batch) { return has(FEATURE_CU_SEQLENS_K) ? packed_keys(batch).y : parameters.kv_len; }

// Keys that a sequence has.
uint sequence_keys(uint batch) {
    uint end = keys_in_memory(batch);
    if (!has(FEATURE_KEY_LENGTHS)) return end;
    return uint(clamp(key_lengths[base_bytes(BINDING_KEY_LENGTHS) / 4 + batch], 0, int(end)));
}

// The page of a key, as the block table has it.
int page_of_key(uint batch, uint key) {
    uint entry = batch * parameters.table_pages + min(key / max(PAGE_SIZE, 1), parameters.table_pages - 1);
    return block_table[base_bytes(BINDING_BLOCK_TABLE) / 4 + entry];
}

// (outermost index, row) of K and V: a batch entry, or a page. Of a slot without a key, some row of the pool.
uvec2 row_of_key(uint batch, Key key) {
    if (has(FEATURE_CU_SEQLENS_K)) return uvec2(0, min(packed_keys(batch).x + key.number, parameters.kv_total - 1));
    if (PAGE_SIZE == 0) return uvec2(batch, key.number);
    return uvec2(clamp(page_of_key(batch, key.number), 0, int(parameters.pool_pages) - 1),
                 key.number % max(PAGE_SIZE, 1));
}

uvec2 row_of_slot(Row row, Slot slot) { return row_of_key(row.batch, key_of_slot(row, slot)); }

// What the elements of a key and its value are multiplied with.
uint scale_element(Row row, Key key, uvec4 strides) {
    uvec2 at = row_of_key(row.batch, key);
    return at.x * strides[0] + row.kv_head * strides[1] + at.y * strides[2];
}

float key_scale(Row row, Key key) {
    if (!SCALES_KEYS) return 1.0;
    return scales_of_keys[base_bytes(BINDING_KEY_SCALES) / 4 + scale_element(row, key, parameters.key_scales_strides)];
}

float value_scale(Row row, Key key) {
    if (!SCALES_VALUES) return 1.0;
    return scales_of_values[base_bytes(BINDING_VALUE_SCALES) / 4 +
                            scale_element(row, key, parameters.value_scales_strides)];
}

// How often a row's list names a key.
uint times_listed(Row row, Key key) {
    uint list = list_of_row(row), block = key.number / KEY_BLOCK_LEN;
    return first_entry_from(list, block + 1) - first_entry_from(list, block);
}

// Nonzero where slots may have no key: in lists (entries that name nothing) and in pages (outside the pool).
const uint LACKS_KEYS = PAGE_SIZE | (MORE_FEATURES & MORE_FEATURE_KEY_INDICES);

// A page outside the pool has no keys, and neither has an entry that names nothing.
bool has_key(Row row, Slot slot) {
    if (LISTS_KEYS && listed_key(list_of_row(row), slot.number) >= parameters.kv_len) return false;
    return PAGE_SIZE == 0 || uint(page_of_key(row.batch, key_of_slot(row, slot).number)) < parameters.pool_pages;
}

// Whether each of the slots has one.
bool have_keys(RowTile rows, SlotRange slots) {
    if (PAGE_SIZE == 0) return true;
    if (LISTS_KEYS) return false; // each is looked up
    bool all = true;
    for (uint key = slots.begin; key < slots.end; key = (key / max(PAGE_SIZE, 1) + 1) * PAGE_SIZE)
        all = all && uint(page_of_key(rows.batch, key)) < parameters.pool_pages;
    return all;
}

#endif
