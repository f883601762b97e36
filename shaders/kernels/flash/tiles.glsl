// The tiles of flash in shared memory, and how they are filled. K and V pass through one of them: K a chunk of dims at a
// time, V a chunk of keys.
#ifndef FLASH_TILES_GLSL
#define FLASH_TILES_GLSL

#include "attention/key_walk.glsl"
#include "attention/rows.glsl"
#include "kernels/flash/elements.glsl"

const uint ROW_GROUPS = WORKGROUP_SIZE / COLUMNS;
const uint TILE_ROWS = ROW_GROUPS * ROWS;
const uint KEYS = COLUMNS * KEYS_OF_INVOCATION;

const uint CHUNKS = (HEAD_DIM + DIMS_OF_CHUNK - 1) / DIMS_OF_CHUNK;
const uint PADDED_HEAD_DIM = CHUNKS * DIMS_OF_CHUNK;
const uint CHUNK_ELEMENTS = DIMS_OF_CHUNK / ELEMENT_DIMS;
const uint QUERY_CHUNKS = QUERY_STAGED != 0 ? CHUNKS : 1; // in shared memory at a time
const uint VALUE_CHUNKS = KEYS / KEYS_OF_CHUNK;
const uint VALUE_ELEMENTS = ((V_HEAD_DIM + ELEMENT_DIMS - 1) / ELEMENT_DIMS + COLUMNS - 1) / COLUMNS; // an invocation's
const uint PADDED_V_HEAD_DIM = VALUE_ELEMENTS * COLUMNS * ELEMENT_DIMS;

// Elements between rows: one more than there are, so that neighbours lie in other banks.
const uint QUERY_PITCH = QUERY_CHUNKS * CHUNK_ELEMENTS + 1;
const uint KEY_PITCH = CHUNK_ELEMENTS + 1;
const uint VALUE_PITCH = VALUE_ELEMENTS * COLUMNS + 1;
const uint WEIGHT_PITCH = KEYS / 4; // weights lie in other banks by their order: see weight_element

const uint KEY_TILE = KEYS * KEY_PITCH, VALUE_TILE = KEYS_OF_CHUNK * VALUE_PITCH;
const uint COLUMN_TILE = TILE_ROWS * COLUMNS / COMPONENTS; // a number of every column of every row
const uint LARGER_TILE = KEY_TILE > VALUE_TILE ? KEY_TILE : VALUE_TILE;

shared ELEMENT query_tile[TILE_ROWS * QUERY_PITCH];
shared ELEMENT kv_tile[LARGER_TILE > COLUMN_TILE ? LARGER_TILE : COLUMN_TILE];
shared vec4 weight_tile[TILE_ROWS * WEIGHT_PITCH]; // of keys, in the order of key_at

// Vectors that an invocation has under way while it fills a tile: each of them is registers.
#ifdef STAGED_HALVES
const uint LOADS = 4;
#else
const uint LOADS = 2;
#endif

uint lane() { return gl_LocalInvocationID.x; }
uint column() { return lane() % COLUMNS; }
uint tile_row(uint r) { return lane() / COLUMNS + r * ROW_GROUPS; }

// Keys of a tile in the order of their weights: those of an invocation side by side.
uint key_at(uint position) { return position / KEYS_OF_INVOCATION + position % KEYS_OF_INVOCATION * COLUMNS; }

// The element of weight_tile that holds a row's weights 4 * i to 4 * i + 3. first_row: the invocation's.
uint weight_element(uint first_row, uint i) {
    const uint orders = WEIGHT_PITCH < 8 ? WEIGHT_PITCH : 8;
    return first_row * WEIGHT_PITCH + (i ^ first_row % orders);
}

// An index into shared memory. That it is small lets compilers add constants to it in a load's own offset.
uint small(uint index) { return index & 8191u; }

// Fills a tile of `count` rows of `vectors` vectors, several of them under way at a time. load: of row `row` and vector
// `vector`.
#define STAGE(tile, count, vectors, pitch, load)                                                                       \
    const uint all = (count) * (vectors), passes = (all + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;                        \
    const uint at_once = passes < LOADS ? passes : LOADS;                                                              \
    [[dont_unroll]] for (uint first = lane(); first < all; first += at_once * WORKGROUP_SIZE) {                        \
        VECTOR loaded[at_once];                                                                                        \
        [[unroll]] for (uint i = 0; i < at_once; ++i) {                                                                \
            uint row = (first + i * WORKGROUP_SIZE) / (vectors), vector = (first + i * WORKGROUP_SIZE) % (vectors);    \
            loaded[i] = load;                                                                                          \
        }                                                                                                              \
        [[unroll]] for (uint i = 0; i < at_once; ++i) {                                                                \
            uint at = first + i * WORKGROUP_SIZE;                                                                      \
            uint element = at / (vectors) * (pitch) + at % (vectors)*ELEMENTS_OF_VECTOR;                               \
            if (all % (at_once * WORKGROUP_SIZE) == 0 || at < all) {                                                   \
                PUT(tile, element, loaded[i])                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }

void stage_query(uint chunk) {
    STAGE(query_tile, TILE_ROWS, QUERY_CHUNKS * DIMS_OF_CHUNK / 8, QUERY_PITCH,
          load_query(row, chunk * DIMS_OF_CHUNK + 8 * vector, PADDED_HEAD_DIM))
}

void stage_keys(KeyTile tile, uint chunk) {
    STAGE(kv_tile, KEYS, DIMS_OF_CHUNK / 8, KEY_PITCH,
          load_key(slot_to_load(tile, advance(tile.first, row)), chunk * DIMS_OF_CHUNK + 8 * vector, PADDED_HEAD_DIM))
}

void stage_values(KeyTile tile, uint chunk) {
    STAGE(kv_tile, KEYS_OF_CHUNK, VALUE_ELEMENTS * COLUMNS / ELEMENTS_OF_VECTOR, VALUE_PITCH,
          load_value(slot_to_load(tile, advance(tile.first, key_at(chunk * KEYS_OF_CHUNK + row))), 8 * vector,
                     PADDED_V_HEAD_DIM))
}

#endif
