// Which query positions see a tile of keys, as far as positions and lengths say.
#ifndef BACKWARD_SEEING_ROWS_GLSL
#define BACKWARD_SEEING_ROWS_GLSL

#include "attention/rows.glsl"
#include "attention/variant.glsl"

KeyRange keys; // of the workgroup, of sequence batch and KV head kv_head
uint batch, kv_head;

void take_keys(uint tile, uint head, const uint size) {
    batch = workgroup().z;
    kv_head = head;
    keys = KeyRange(tile * size, min(tile * size + size, keys_in_memory(batch)));
}

Key own_key(uint own) { return Key(min(keys.begin + own, keys.end - 1)); }

// Positions first .. end - 1 that may see one of the keys.
uvec2 positions_that_see() {
    uint len = query_length(batch), first = 0, end = keys.begin < key_length(batch) ? len : 0;
    int offset = diagonal_offset(batch);
    if (has(FEATURE_CAUSAL)) first = clamp_key(int(keys.begin) - offset, len);
    if (has(FEATURE_WINDOW)) {
        first = max(first, clamp_key(int(keys.begin) - parameters.window_right - offset, len));
        end = min(end, clamp_key(int(keys.end) + parameters.window_left - offset, len));
    }
    return uvec2(first, end);
}

// Whether every one of the rows sees `size` keys from the first one on.
bool are_all_visible(RowTile rows, Sight sight, const uint size) {
    if (LISTS_KEYS || !sight.whole) return false;
    KeyRange seen = seen_by_all(batch, rows.first / GROUP, last_row(rows) / GROUP);
    return keys.begin >= seen.begin && keys.begin + size <= seen.end;
}

#endif
