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
const uint VALUE_ELEMENTS = ((V_HEAD_DIM + VALUE_DIMS - 1) / VALUE_DIMS + COLUMNS - 1) / COLUMNS; // an invocation's
const uint PADDED_V_HEAD_DIM = VALUE_ELEMENTS * COLUMNS * VALUE_DIMS;

// Elements between rows: one more than there are, so that neighbours lie in other banks.
const uint QUERY_PITCH = QUERY_CHUNKS * CHUNK_ELEMENTS + 1;
const uint KEY_PITCH = CHUNK_ELEMENTS + 1;
const uint VALUE_PITCH = VALUE_ELEMENTS * COLUMNS + 1;
const uint WEIGHT_PITCH = KEYS / 4; // weights lie in other banks by their order: see weight_element

const uint KEY_TILE = KEYS * KEY_PITCH, VALUE_TILE = KEYS_OF_CHUNK / VALUE_KEYS * VALUE_PITCH;
const uint COLUMN_TILE = TILE_ROWS * COLUMNS / (COMPONENTS * SPLITS); // a number of every column of every row
const uint LARGER_TILE = KEY_TILE > VALUE_TILE ? KEY_TILE : VALUE_TILE;
const uint query_tile_size = TILE_ROWS * QUERY_PITCH;
const uint kv_tile_size = LARGER_TILE > COLUMN_TILE ? LARGER_TILE : COLUMN_TILE;

shared TILE_ELEMENT query_tile[SPLITS * query_tile_size];
shared TILE_ELEMENT kv_tile[SPLITS * kv_tile_size];
shared WEIGHT_ELEMENT weight_tile[TILE_ROWS * WEIGHT_PITCH]; // of keys, in the order of key_at

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

// Where in weight_tile a number of this column's key `k` of row `r` is: element and component.
uvec2 weight_at(uint r, uint k) {
    uint position = column() * KEYS_OF_INVOCATION + k;
    return uvec2(weight_element(tile_row(0), position / 4) + r * ROW_GROUPS * WEIGHT_PITCH, position % 4);
}

void put_number(const uint r, const uint k, float number) {
    uvec2 at = weight_at(r, k);
    weight_tile[at.x][at.y] = TO_WEIGHT(number);
}

// An index into shared memory. That it is small lets compilers add constants to it in a load's own offset.
uint small(uint index) { return index & 8191u; }

// Not 0 if a value that was staged for a tile with hidden keys is infinite or not a number: a weight of 0 does not hide it.
shared uint values_beyond_numbers;

// Not 0 if one of the vector is: its exponent, which is all ones, carries.
#if defined(STAGED_HALVES) || defined(STAGED_WIDE_HALVES)
uint beyond_numbers(const uint format, VECTOR vector) {
    const uint exponents = format == FORMAT_BF16 ? 0x7f807f80u : 0x7c007c00u;
    const uint least = format == FORMAT_BF16 ? 0x00800080u : 0x04000400u;
    uvec4 carried = (vector & exponents) + least;
    return (carried.x | carried.y | carried.z | carried.w) & 0x80008000u;
}
#else
uint beyond_numbers(const uint format, VECTOR vector) {
    uvec4 low = (floatBitsToUint(vector[0]) & 0x7f800000u) + 0x00800000u;
    uvec4 high = (floatBitsToUint(vector[1]) & 0x7f800000u) + 0x00800000u;
    return (low.x | low.y | low.z | low.w | high.x | high.y | high.z | high.w) & 0x80000000u;
}
#endif

// Fills a tile of `count` rows of `vectors` vectors, several of them under way at a time. load: of row `row` and vector
// `vector`; look: what else becomes of a vector.
#define STAGE(tile, count, vectors, pitch, load, look)                                                                 \
    const uint all = (count) * (vectors), passes = (all + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;                        \
    const uint at_once = passes < LOADS ? passes : LOADS;                                                              \
    [[dont_unroll]] for (uint first = lane(); first < all; first += at_once * WORKGROUP_SIZE) {                        \
        VECTOR loaded[at_once];                                                                                        \
        [[unroll]] for (uint i = 0; i < at_once; ++i) {                                                                \
            uint row = (first + i * WORKGROUP_SIZE) / (vectors), vector = (first + i * WORKGROUP_SIZE) % (vectors);    \
            loaded[i] = load;                                                                                          \
        }                                                                                                              \
        [[unroll]] for (uint i = 0; i < at_once; ++i) look(loaded[i]);                                                 \
        [[unroll]] for (uint i = 0; i < at_once; ++i) {                                                                \
            uint at = first + i * WORKGROUP_SIZE;                                                                      \
            uint element = at / (vectors) * (pitch) + at % (vectors)*ELEMENTS_OF_VECTOR;                               \
            if (all % (at_once * WORKGROUP_SIZE) == 0 || at < all) {                                                   \
                PUT(tile, element, loaded[i])                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }

#define PASS_BY(vector)
#define LOOK_AT_VALUE(vector)                                                                                          \
    if (!tile.all_visible) beyond |= beyond_numbers(VALUE_FORMAT, vector)

void stage_query(uint chunk) {
    STAGE(query_tile, TILE_ROWS, QUERY_CHUNKS * DIMS_OF_CHUNK / 8, QUERY_PITCH,
          load_query(row, chunk * DIMS_OF_CHUNK + 8 * vector, PADDED_HEAD_DIM), PASS_BY);
}

VECTOR load_key_at(KeyTile tile, uint row, uint dim) {
    return load_key(slot_to_load(tile, advance(tile.first, row)), dim, PADDED_HEAD_DIM);
}

void stage_keys(KeyTile tile, uint chunk) {
    STAGE(kv_tile, KEYS, DIMS_OF_CHUNK / 8, KEY_PITCH, load_key_at(tile, row, chunk * DIMS_OF_CHUNK + 8 * vector),
          PASS_BY);
}

VECTOR load_value_at(KeyTile tile, uint position, uint vector) {
    return load_value(slot_to_load(tile, advance(tile.first, key_at(position))), 8 * vector, PADDED_V_HEAD_DIM);
}

#ifdef DOT_PRODUCTS
// Eight dims of two keys as elements of four dims: the keys' halves of a dim are a word.
void put_pair(uint at, uvec4 first, uvec4 second) {
    uvec4 even = first & 0xffffu | second << 16, odd = first >> 16 | second & 0xffff0000u;
    PUT_ELEMENT(kv_tile, at, uvec4(even.x, odd.x, even.y, odd.y))
    PUT_ELEMENT(kv_tile, at + 1, uvec4(even.z, odd.z, even.w, odd.w))
}

void stage_values(KeyTile tile, uint chunk) {
    const uint vectors = VALUE_ELEMENTS * COLUMNS / 2, all = KEYS_OF_CHUNK / 2 * vectors;
    uint beyond = 0;
    [[dont_unroll]] for (uint at = lane(); at < all; at += WORKGROUP_SIZE) {
        uint pair = at / vectors, vector = at % vectors, position = chunk * KEYS_OF_CHUNK + 2 * pair;
        uvec4 first = load_value_at(tile, position, vector), second = load_value_at(tile, position + 1, vector);
        LOOK_AT_VALUE(first);
        LOOK_AT_VALUE(second);
        put_pair(pair * VALUE_PITCH + vector * 2, first, second);
    }
    if (beyond != 0) atomicOr(values_beyond_numbers, 1);
}
#else
void stage_values(KeyTile tile, uint chunk) {
    uint beyond = 0;
    STAGE(kv_tile, KEYS_OF_CHUNK, VALUE_ELEMENTS * COLUMNS / ELEMENTS_OF_VECTOR, VALUE_PITCH,
          load_value_at(tile, chunk * KEYS_OF_CHUNK + row, vector), LOOK_AT_VALUE);
    if (beyond != 0) atomicOr(values_beyond_numbers, 1);
}
#endif

#endif
