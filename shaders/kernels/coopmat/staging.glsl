// How Q, K and V come into shared memory.
#ifndef COOPMAT_STAGING_GLSL
#define COOPMAT_STAGING_GLSL

#include "attention/key_value.glsl"
#include "attention/key_walk.glsl"
#include "attention/query.glsl"
#include "attention/variant.glsl"
#include "common/matrix_element.glsl"
#include "kernels/coopmat/tiles.glsl"

// Loads of a tile are unrolled, so that all are on their way at once: where each is one load, and they are few.
const uint MOST_LOADS = 8;

shared uint last_special; // number of the last staging of values that met what is not finite

bool is_past_head(uint dim) { return QUERY_DIMS != HEAD_DIM && dim >= HEAD_DIM; }
bool is_past_value(uint dim) { return VALUE_DIMS != V_HEAD_DIM && dim >= V_HEAD_DIM; }

// Eight neighbours each; dims past the head's are zeros. _whole: of rows that are loaded sixteen bytes at a time. Queries of f32
// are rounded.
uvec4 load_query_whole(Row row, uint dim) {
    if (is_past_head(dim)) return uvec4(0);
    if (QUERY_FORMAT == FORMAT_F32) return pack_vector(query_load8(QUERY_FORMAT, query_element(row) + dim));
    return query_load8_halves(query_element(row) + dim);
}

uvec4 load_key_whole(Row row, Slot slot, uint dim) {
    return is_past_head(dim) ? uvec4(0) : key_load8_halves(key_element(row, slot) + dim);
}

uvec4 load_value_whole(Row row, Slot slot, uint dim) {
    return is_past_value(dim) ? uvec4(0) : value_load8_halves(value_element(row, slot) + dim);
}

bool keys_are_whole() { return KEY_FORMAT == MATRIX_FORMAT && has(FEATURE_KEY_ALIGNED); }
bool values_are_whole() { return VALUE_FORMAT == MATRIX_FORMAT && has(FEATURE_VALUE_ALIGNED); }

uvec4 load_query_elements(Row row, uint dim) {
    if (is_past_head(dim)) return uvec4(0);
    return has(FEATURE_QUERY_ALIGNED) ? load_query_whole(row, dim) : pack_vector(load_query_vector(row, dim));
}

uvec4 load_key_elements(Row row, Slot slot, uint dim) {
    if (is_past_head(dim)) return uvec4(0);
    if (is_quantised(KEY_FORMAT)) return pack_vector(key_load8_numbers(KEY_FORMAT, key_element(row, slot) + dim));
    return keys_are_whole() ? load_key_whole(row, slot, dim) : pack_vector(load_key_vector(row, slot, dim));
}

#define IS_OF_VALUE(NAME, name, number, elements, bytes, KIND, width, USES)                                            \
    +uint(KIND < E4M3) * uint(VALUE_FORMAT == FORMAT_##NAME)
const bool VALUE_IS_OF_BLOCKS = (0u CACHED_BLOCK_TYPES(IS_OF_VALUE)) != 0u;

// Sixteen bits hold an eight-bit float, but not its product with any scale. A scale that all of a head's values share multiplies
// their sums in the end. Of a key's scale, the power of two multiplies the key's weight, whose reference follows what comes of it.
float value_exponent(float scale) {
    return float(clamp(int(bitfieldExtract(floatBitsToUint(scale), 23, 8)), 27, 227) - 126);
}

// Sixteen bits do not hold every number of a quantised block, of which 65504 * -128 is one: large ones are summed apart.
bool stages_large_values = false;
const uint CARRIES_SPECIAL = VALUE_IS_OF_BLOCKS ? CARRIES_LARGE : CARRIES_INFINITE;

uvec4 load_value_elements(Row row, Slot slot, uint dim) {
    if (is_past_value(dim)) return uvec4(0);
    if (values_are_whole()) return load_value_whole(row, slot, dim);
    mat2x4 vector = load_unscaled_value_vector(row, slot, dim);
    if (SCALES_VALUES_BY_KEY) {
        float scale = value_scale(row, key_of_slot(row, slot));
        vector *= scale * exp2(-value_exponent(scale)); // from 0.5 to 1
    }
    return VALUE_IS_OF_BLOCKS && stages_large_values ? pack_large_values(vector) : pack_vector(vector);
}

void stage_query() {
    const uint vectors = QUERY_DIMS / 8;
    for (uint i = invocation(); i < TILE_ROWS * vectors; i += WORKGROUP_SIZE)
        tiles[QUERY_TILE + i / vectors * QUERY_PITCH + i % vectors] =
            load_query_elements(row_of_tile(rows, i / vectors), i % vectors * 8);
}

const uint KEY_VECTORS = DIMS_OF_CHUNK / 8; // of a key
const uint KEY_ITEMS = KEYS_OF_TILE * KEY_VECTORS;
const uint KEY_TURNS = KEY_ITEMS / WORKGROUP_SIZE;

// An item is eight dims of a key. i: from 0 on, of all invocations; turn: of those of this invocation.
struct KeyItem {
    uint key; // of the tile
    uint vector;
};

KeyItem key_item(uint i) { return KeyItem(i / KEY_VECTORS, i % KEY_VECTORS); }

KeyItem key_item_of_turn(uint turn) {
    if (WORKGROUP_SIZE % KEY_VECTORS != 0) return key_item(turn * WORKGROUP_SIZE + invocation());
    KeyItem item = key_item(invocation()); // divided once for all turns
    return KeyItem(item.key + turn * (WORKGROUP_SIZE / KEY_VECTORS), item.vector);
}

Slot slot_of_item(KeyTile tile, KeyItem item) { return slot_to_load(tile, advance(tile.first, item.key)); }
uint dim_of_item(uint chunk, KeyItem item) { return chunk * DIMS_OF_CHUNK + item.vector * 8; }
void store_key_item(KeyItem item, uvec4 elements) { tiles[item.key * KEY_PITCH + item.vector] = elements; }

bool stages_keys_at_once() { return keys_are_whole() && KEY_TURNS <= MOST_LOADS; }

// A load is on its way for each turn before the first item is stored.
void stage_keys_at_once(KeyTile tile, uint chunk) {
    uvec4 elements[KEY_TURNS > 0 ? KEY_TURNS : 1];
    [[unroll]] for (uint turn = 0; turn < KEY_TURNS; ++turn) {
        KeyItem item = key_item_of_turn(turn);
        elements[turn] = load_key_whole(row_of_tile(rows, 0), slot_of_item(tile, item), dim_of_item(chunk, item));
    }
    [[unroll]] for (uint turn = 0; turn < KEY_TURNS; ++turn) store_key_item(key_item_of_turn(turn), elements[turn]);
}

// Of quantised keys, whole numbers are multiplied, and their sum over the dims of a block with the block's scale: rounded to
// 16 bits, the products of the two would make large scores inexact. A minimum is multiplied by the sum of the query's dims.
const uint BLOCK_DIMS = DIMS_OF_CHUNK < QUANTISED_BLOCK ? DIMS_OF_CHUNK : QUANTISED_BLOCK; // of a chunk
const uint BLOCKS_OF_CHUNK = (DIMS_OF_CHUNK + BLOCK_DIMS - 1) / BLOCK_DIMS;
#define IS_OF_KEY(NAME, name, number, elements, bytes, KIND, width, USES) +uint(KEY_FORMAT == FORMAT_##NAME)
#define MINIMUM_OF_KEY(NAME, name, number, elements, bytes, KIND, width, USES)                                         \
    +uint(KIND == AFFINE) * uint(KEY_FORMAT == FORMAT_##NAME)
const uint KEY_IS_QUANTISED = 0u CACHED_BLOCK_TYPES(IS_OF_KEY); // constant expressions, unlike functions
const uint KEY_HAS_MINIMUM = 0u CACHED_BLOCK_TYPES(MINIMUM_OF_KEY);
const uint SCALES_OF_CHUNK = BLOCKS_OF_CHUNK * KEYS_OF_TILE / 4; // block after block, four keys in each
const uint VALUE_EXPONENTS =
    SCALES_OF_CHUNK * (KEY_IS_QUANTISED + KEY_HAS_MINIMUM); // where those of the tile's keys begin
const uint SCALES_END = VALUE_EXPONENTS + KEYS_OF_TILE / 4 * uint(SCALES_VALUES_BY_KEY);
shared vec4 key_scales[SCALES_END > 0 ? SCALES_END : 1]; // then minimums, then exponents of scales of values

void stage_scales(KeyTile tile, uint chunk) {
    [[dont_unroll]] for (uint i = invocation(); i < BLOCKS_OF_CHUNK * KEYS_OF_TILE; i += WORKGROUP_SIZE) {
        Slot slot = slot_to_load(tile, advance(tile.first, i % KEYS_OF_TILE));
        uint dim = chunk * DIMS_OF_CHUNK + i / KEYS_OF_TILE * BLOCK_DIMS;
        Row row = row_of_tile(rows, 0);
        vec2 affine = is_past_head(dim) ? vec2(0) : key_affine(KEY_FORMAT, key_element(row, slot) + dim);
        key_scales[i / 4][i % 4] = affine.x * key_scale(row, key_of_slot(row, slot));
        if (KEY_HAS_MINIMUM != 0) key_scales[SCALES_OF_CHUNK + i / 4][i % 4] = affine.y;
    }
}

void stage_value_exponents(KeyTile tile) {
    if (!SCALES_VALUES_BY_KEY) return;
    for (uint i = invocation(); i < KEYS_OF_TILE; i += WORKGROUP_SIZE) {
        Row row = row_of_tile(rows, 0);
        Slot slot = slot_to_load(tile, advance(tile.first, i));
        key_scales[VALUE_EXPONENTS + i / 4][i % 4] = value_exponent(value_scale(row, key_of_slot(row, slot)));
    }
}

void stage_keys(KeyTile tile, uint chunk) {
    if (KEY_IS_QUANTISED != 0) stage_scales(tile, chunk);
    if (stages_keys_at_once()) stage_keys_at_once(tile, chunk);
    if (stages_keys_at_once() && KEY_ITEMS % WORKGROUP_SIZE == 0) return;
    uint first = stages_keys_at_once() ? KEY_TURNS * WORKGROUP_SIZE : 0;
    [[dont_unroll]] for (uint i = first + invocation(); i < KEY_ITEMS; i += WORKGROUP_SIZE) {
        KeyItem item = key_item(i);
        store_key_item(item,
                       load_key_elements(row_of_tile(rows, 0), slot_of_item(tile, item), dim_of_item(chunk, item)));
    }
}

// Not 0: a key of a tile may be hidden from some of its rows and not from others.
const uint HIDES_KEYS = HIDES_FROM_SOME_ROWS | LACKS_KEYS;

// Which part of which values is staged, as which staging.
struct ValueStaging {
    uint chunk;  // of the tile's keys
    uint part;   // VALUES_ALL or another
    uint number; // from 1 on
};

// An item is eight dims of two neighbouring keys. Four neighbouring invocations take 64 bytes of a key.
const uint VALUE_BLOCKS_OF_ROW = VALUE_DIMS / 8;
const uint VALUE_PAIRS = KEYS_OF_CHUNK / 2;
const uint VALUE_ITEMS = (VALUE_BLOCKS_OF_ROW + 3) / 4 * 4 * VALUE_PAIRS;
const uint VALUE_TURNS = (VALUE_ITEMS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;

struct ValueItem {
    uint block; // of eight dims
    uint pair;  // of keys, of the chunk
};

ValueItem value_item(uint i) { return ValueItem(i % 4 + i / (4 * VALUE_PAIRS) * 4, i / 4 % VALUE_PAIRS); }

ValueItem value_item_of_turn(uint turn) {
    if (WORKGROUP_SIZE % (4 * VALUE_PAIRS) != 0) return value_item(turn * WORKGROUP_SIZE + invocation());
    ValueItem item = value_item(invocation()); // divided once for all turns
    return ValueItem(item.block + turn * (WORKGROUP_SIZE / VALUE_PAIRS), item.pair);
}

// Of the last turn, perhaps not all invocations have an item.
bool has_value_item(uint turn) {
    return (turn + 1) * WORKGROUP_SIZE <= VALUE_ITEMS || turn * WORKGROUP_SIZE + invocation() < VALUE_ITEMS;
}

Slot slot_of_item(KeyTile tile, ValueStaging staging, ValueItem item) {
    return Slot(tile.first.number + staging.chunk * KEYS_OF_CHUNK + 2 * item.pair);
}

// Of an item.
struct TwoKeys {
    uvec4 even, odd;
};

uvec4 restrict_elements(KeyTile tile, ValueStaging staging, Slot slot, uvec4 elements) {
    if (slot.number >= tile.end) elements = uvec4(0); // the last key once more, that others see
    if (HIDES_KEYS == 0 && !VALUE_IS_OF_BLOCKS) return elements;
    if (have_special(elements, CARRIES_SPECIAL)) atomicMax(last_special, staging.number);
    return part_of_elements(elements, staging.part, CARRIES_SPECIAL);
}

// In a tile of which some row does not see some key, or of which parts are summed apart.
TwoKeys restrict_item(KeyTile tile, ValueStaging staging, ValueItem item, TwoKeys keys) {
    Slot slot = slot_of_item(tile, staging, item);
    return TwoKeys(restrict_elements(tile, staging, slot, keys.even),
                   restrict_elements(tile, staging, advance(slot, 1), keys.odd));
}

// The vector, `by` components further on.
uvec4 rotate(uvec4 vector, uint by) {
    if ((by & 1) != 0) vector = vector.yzwx;
    return (by & 2) != 0 ? vector.zwxy : vector;
}

// A word of each dim's row, or a vector of each key's. The rows of a block's first dim begin in the same bank, whichever block it
// is: each of four neighbouring invocations begins with another pair of dims.
void store_value_item(ValueItem item, TwoKeys keys) {
    if (VALUE_BLOCKS_OF_ROW % 4 != 0 && item.block >= VALUE_BLOCKS_OF_ROW) return;
    if (VALUES_BY_KEY) {
        tiles[VALUE_TILE + 2 * item.pair * VALUE_PITCH + item.block] = keys.even;
        tiles[VALUE_TILE + (2 * item.pair + 1) * VALUE_PITCH + item.block] = keys.odd;
        return;
    }
    uint first = item.block % 4;
    uvec4 even_dims = rotate((keys.even & 0xffffu) | (keys.odd << 16), first);
    uvec4 odd_dims = rotate((keys.even >> 16) | (keys.odd & 0xffff0000u), first);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint at = VALUE_TILE + (item.block * 8 + (first + i) % 4 * 2) * VALUE_PITCH + item.pair / 4;
        tiles[at][item.pair % 4] = even_dims[i];
        tiles[at + VALUE_PITCH][item.pair % 4] = odd_dims[i];
    }
}

// Blocks past the last repeat it, and are not stored: there may be no memory behind it.
uint dim_of_item(ValueItem item) {
    const uint last = VALUE_BLOCKS_OF_ROW - 1;
    return (VALUE_BLOCKS_OF_ROW % 4 == 0 ? item.block : min(item.block, last)) * 8;
}

TwoKeys load_whole_item(KeyTile tile, ValueStaging staging, ValueItem item) {
    Slot slot = slot_of_item(tile, staging, item);
    Row row = row_of_tile(rows, 0);
    return TwoKeys(load_value_whole(row, slot_to_load(tile, slot), dim_of_item(item)),
                   load_value_whole(row, slot_to_load(tile, advance(slot, 1)), dim_of_item(item)));
}

bool stages_values_at_once() { return values_are_whole() && 2 * VALUE_TURNS <= MOST_LOADS; }

void stage_values_at_once(KeyTile tile, ValueStaging staging) {
    TwoKeys keys[VALUE_TURNS];
    [[unroll]] for (uint turn = 0; turn < VALUE_TURNS; ++turn) if (has_value_item(turn)) keys[turn] =
        load_whole_item(tile, staging, value_item_of_turn(turn));
    if (!tile.all_visible) [[unroll]]
        for (uint turn = 0; turn < VALUE_TURNS; ++turn)
            if (has_value_item(turn)) keys[turn] = restrict_item(tile, staging, value_item_of_turn(turn), keys[turn]);
    [[unroll]] for (uint turn = 0; turn < VALUE_TURNS; ++turn) if (has_value_item(turn))
        store_value_item(value_item_of_turn(turn), keys[turn]);
}

TwoKeys load_item(KeyTile tile, ValueStaging staging, ValueItem item) {
    Slot slot = slot_of_item(tile, staging, item);
    TwoKeys keys = TwoKeys(uvec4(0), uvec4(0));
    [[dont_unroll]] for (uint odd = 0; odd < 2; ++odd) { // once in the code
        keys.even = keys.odd;
        keys.odd = load_value_elements(row_of_tile(rows, 0), slot_to_load(tile, advance(slot, odd)), dim_of_item(item));
    }
    return keys;
}

void stage_values_in_turn(KeyTile tile, ValueStaging staging) {
    [[dont_unroll]] for (uint i = invocation(); i < VALUE_ITEMS; i += WORKGROUP_SIZE) {
        ValueItem item = value_item(i);
        TwoKeys keys = load_item(tile, staging, item);
        if (VALUE_IS_OF_BLOCKS && (have_special(keys.even, CARRIES_SPECIAL) || have_special(keys.odd, CARRIES_SPECIAL)))
            atomicMax(last_special, staging.number);
        if (!tile.all_visible || (VALUE_IS_OF_BLOCKS && staging.part != VALUES_ALL))
            keys = restrict_item(tile, staging, item, keys);
        store_value_item(item, keys);
    }
}

void stage_values(KeyTile tile, ValueStaging staging) {
    if (stages_values_at_once())
        stage_values_at_once(tile, staging);
    else
        stage_values_in_turn(tile, staging);
}

#endif
