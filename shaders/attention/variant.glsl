// What a key is worth to a query: the score and its masks. Another variant of attention replaces this file; it declares
// the same nine names.
#ifndef VARIANT_GLSL
#define VARIANT_GLSL

#include "attention/masks.glsl"
#include "attention/positions.glsl"
#include "attention/score_terms.glsl"
#ifdef SCORE_MOD
#include "attention/functions.glsl"
#endif

// Not 0: the kernel transforms its scores before it asks here. coopmat does so with matrices of them, but not where a list makes
// neighbouring slots keys that are none.
#ifndef TRANSFORMED_BEFORE
#define TRANSFORMED_BEFORE 0u
#endif

// Whether transform_score changes a score.
#ifdef SCORE_MOD
const bool TRANSFORMS_SCORES = true;
#else
const uint TRANSFORMS = (1u - TRANSFORMED_BEFORE) * (FEATURES & (FEATURE_SOFTCAP | FEATURE_ALIBI_SLOPES));
const bool TRANSFORMS_SCORES = TRANSFORMS != 0u;
#define modify_score(score, row, key) score
#endif

// Not 0: more than positions and lengths decides what a score becomes. Else that takes few instructions a key.
#if defined(SCORE_MOD) || defined(MASK_MOD)
const uint MASKS_BY_PAIR = 1u;
#else
const uint MASKS_BY_PAIR = TRANSFORMS | MASK_FORMAT | (FEATURES & (FEATURE_KEY_PADDING_MASK | FEATURE_BLOCK_MASK)) |
                           (MORE_FEATURES & MORE_FEATURE_TREE_MASK);
#endif

// From scale * Q K^T, in units of log 2, to the score of a key that no mask hides.
float transform_score(float score, Row row, Key key) {
    if (!TRANSFORMS_SCORES) return score;
    return bias_score(modify_score(cap_score(score), row, key), row, key);
}

// What the masks make of a transformed score: HIDDEN where they hide the key.
float mask_score(float score, Row row, Key key) {
    if (key.number >= key_length(row.batch) || hidden_by_position(row.batch, row.position, key)) return HIDDEN;
    if (hidden_by_padding(row.batch, key) || hidden_by_tree(row, key)) return HIDDEN;
    return apply_masks(score, row, key);
}

// Not 0: a row may hide a key that another row of its tile sees.
#ifdef MASK_MOD
const uint HIDES_FROM_SOME_ROWS = 1u;
#else
const uint HIDES_FROM_SOME_ROWS = MASK_FORMAT | HIDES_BY_POSITION | (MORE_FEATURES & MORE_FEATURE_TREE_MASK) |
                                  (FEATURES & (FEATURE_KEY_PADDING_MASK | FEATURE_SHORT_MASK | FEATURE_BLOCK_MASK));
#endif

// Keys outside it are hidden from all query positions first .. last.
KeyRange seen_by_any(uint batch, uint first, uint last) { return range_between(batch, first, last); }

// Keys inside it are visible to all of them, as far as they exist and sight_of says so; empty where a mask must be looked
// up key by key.
KeyRange seen_by_all(uint batch, uint first, uint last) {
    if (masked_by_key()) return KeyRange(0, 0);
    KeyRange range = range_between(batch, last, first);
    if (HAS_TREES) range.end = clamp_key(first_own_key(batch), range.end);
    return range;
}

// What the rows of a tile see of keys that seen_by_all leaves them.
Sight sight_of(RowTile rows, KeyRange keys) { return sight_of_blocks(rows, keys); }

// False if every tile is fully visible (no block mask): callers then skip sight_of.
const bool HIDES_TILES = (FEATURES & FEATURE_BLOCK_MASK) != 0u;

#endif
