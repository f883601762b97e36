// The walk of a workgroup over the keys of its rows, a tile at a time: keys that no row sees are never visited, tiles
// that every row sees need no masks.
#ifndef KEY_WALK_GLSL
#define KEY_WALK_GLSL

#include "attention/keys.glsl"
#include "attention/masks.glsl"
#include "attention/positions.glsl"
#include "attention/rows.glsl"
#include "attention/variant.glsl"

struct KeyWalk {
    RowTile rows;
    KeyRange keys; // that some row sees: this dispatch's, and this part's
    KeyRange full; // that every row sees, as far as they exist and block_mask has them
};

// Part `part` of a range: each of them a multiple of `granule` keys long, the last ones shorter or empty.
KeyRange part_of_range(KeyRange range, uint part, const uint granule) {
    uint size = (max(range.end, range.begin) - range.begin + parts() * granule - 1) / (parts() * granule) * granule;
    uint begin = min(range.begin + part * size, range.end);
    return KeyRange(begin, min(begin + size, range.end));
}

// tile_keys: keys of a tile. alignment: every walk's tiles begin at a multiple of it, whatever its rows see.
KeyWalk begin_walk(RowTile rows, uint part, const uint tile_keys, const uint alignment) {
    uint first = rows.first / GROUP, last = last_row(rows) / GROUP; // query positions
    KeyRange keys = seen_by_any(rows.batch, first, last);
    if (has(FEATURE_SPLIT_KEYS)) keys = KeyRange(max(keys.begin, push.first_key), min(keys.end, push.last_key));
    keys.begin = keys.begin / alignment * alignment;
    if (has(FEATURE_PARTS)) keys = part_of_range(keys, part, tile_keys);
    return KeyWalk(rows, keys, seen_by_all(rows.batch, first, last));
}

// Some keys of a walk.
struct KeyTile {
    uint first;
    uint end;         // of the walk: keys from here on are hidden
    bool seen;        // some row sees some key
    bool all_visible; // every row sees every key
};

// The `count` keys from `first` on.
KeyTile tile_of_walk(KeyWalk walk, uint first, const uint count) {
    Blocks blocks = blocks_of(walk.rows, first, first + count - 1);
    bool inside = first >= walk.full.begin && first + count <= min(walk.full.end, walk.keys.end);
    return KeyTile(first, walk.keys.end, blocks.seen,
                   inside && blocks.whole && keys_exist(walk.rows.batch, first, first + count));
}

// The first key from `key` on that block_mask does not hide from all rows; where there is none, one past the end.
uint next_seen_key(KeyWalk walk, uint key) {
    if (!has(FEATURE_BLOCK_MASK)) return key;
    for (; key < walk.keys.end; key = (key / BLOCK_KV_LEN + 1) * BLOCK_KV_LEN)
        if (blocks_of(walk.rows, key, key).seen) break;
    return key;
}

// The score of a key that exists, of the walk or past its end.
float score_key(float product, Row row, uint key, KeyTile tile) {
    float score = transform_score(product, row, key);
    if (tile.all_visible) return score;
    return key < tile.end && key_exists(row.batch, key) ? mask_score(score, row, key) : HIDDEN;
}

#endif
