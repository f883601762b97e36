// The walk of a workgroup over the slots of its rows' keys, a tile at a time: keys that no row sees are never visited,
// tiles that every row sees need no masks. Every kernel's loop is
//
//     for (KeyWalk walk = begin_walk(...); next_tile(walk, size); pass_tile(walk, size)) ... tile_of_walk(walk, size) ...
#ifndef KEY_WALK_GLSL
#define KEY_WALK_GLSL

#include "attention/keys.glsl"
#include "attention/rows.glsl"
#include "attention/variant.glsl"

struct KeyWalk {
    RowTile rows;
    SlotRange slots; // still to be visited: of keys that some row sees, this dispatch's, and this part's
    SlotRange full;  // of keys that every row sees, as far as they exist and sight_of says so
    uint granule;    // tiles begin at multiples of it, from the walk's begin on
    bool whole;      // sight_of says so of the next tile
};

// Part `part` of a range: each of them a multiple of `granule` slots long, the last ones shorter or empty.
SlotRange part_of_range(SlotRange range, uint part, const uint granule) {
    uint size = (max(range.end, range.begin) - range.begin + parts() * granule - 1) / (parts() * granule) * granule;
    uint begin = min(range.begin + part * size, range.end);
    return SlotRange(begin, min(begin + size, range.end));
}

// granule: of tiles and parts, in slots. alignment: every walk begins at a multiple of it, whatever its rows see.
KeyWalk begin_walk(RowTile rows, uint part, const uint granule, const uint alignment) {
    uint first = rows.first / GROUP, last = last_row(rows) / GROUP; // query positions
    SlotRange slots = slots_around(rows, seen_by_any(rows.batch, first, last));
    if (has(FEATURE_SPLIT_KEYS)) slots = SlotRange(max(slots.begin, push.first_key), min(slots.end, push.last_key));
    slots.begin = slots.begin / alignment * alignment;
    if (has(FEATURE_PARTS)) slots = part_of_range(slots, part, granule);
    return KeyWalk(rows, slots, slots_within(rows, seen_by_all(rows.batch, first, last)), granule, true);
}

// To the next tile of which some row sees a key.
void skip_hidden(inout KeyWalk walk, const uint size) {
    while (walk.slots.begin < walk.slots.end) {
        uint begin = walk.slots.begin;
        KeyRange keys = keys_around(walk.rows, SlotRange(begin, begin + size));
        Sight sight = sight_of(walk.rows, keys);
        uint seen = max(slots_around(walk.rows, KeyRange(sight.first, keys.end)).begin, begin);
        walk.slots.begin = seen - (seen - begin) % walk.granule;
        walk.whole = sight.whole;
        if (walk.slots.begin < begin + size) break;
    }
}

// Whether there is another tile of `size` slots: tile_of_walk is the next one.
bool next_tile(inout KeyWalk walk, const uint size) {
    if (HIDES_TILES) skip_hidden(walk, size);
    return walk.slots.begin < walk.slots.end;
}

// The tile is done.
void pass_tile(inout KeyWalk walk, const uint size) { walk.slots.begin += size; }

// Some slots of a walk.
struct KeyTile {
    Slot first;
    uint end;         // of the walk: keys of slots from here on are hidden
    bool all_visible; // every row sees every key
};

// As if each slot had a key.
KeyTile tile_of_slots(KeyWalk walk, const uint size) {
    uint first = walk.slots.begin;
    bool inside = first >= walk.full.begin && first + size <= min(walk.full.end, walk.slots.end);
    return KeyTile(Slot(first), walk.slots.end, inside && walk.whole);
}

KeyTile tile_of_walk(KeyWalk walk, const uint size) {
    KeyTile tile = tile_of_slots(walk, size);
    SlotRange slots = SlotRange(tile.first.number, tile.first.number + size);
    tile.all_visible = tile.all_visible && have_keys(walk.rows, slots);
    return tile;
}

// In place of slots past the walk's end the last one is loaded: its score and weight say that it is hidden.
Slot slot_to_load(KeyTile tile, Slot slot) { return Slot(min(slot.number, tile.end - 1)); }

// The score of a slot's key, of the walk or past its end.
float score_key(float product, Row row, Slot slot, KeyTile tile) {
    Key key = key_of_slot(row, slot);
    float score = transform_score(product, row, key);
    if (tile.all_visible) return score;
    return slot.number < tile.end && has_key(row, slot) ? mask_score(score, row, key) : HIDDEN;
}

#endif
