// The two products of flash by instructions that add two products of f16 to a sum of f32. Weights become f16, values of two
// keys lie side by side.
#ifndef FLASH_DOT_PRODUCTS_GLSL
#define FLASH_DOT_PRODUCTS_GLSL

#include "common/dot_of_halves.glsl"

// What weights are relative to, of the largest score: f16 weights lie between 2^-14 and 2^15, and what is smaller may count
// as 0.
float reference_of(float maximum) { return maximum - 15.0; }

void score_element(uint key_at, uint query_at) {
    uvec4 keys[KEYS_OF_INVOCATION], queries[ROWS];
    [[unroll]] for (uint k = 0; k < KEYS_OF_INVOCATION; ++k) keys[k] = GET(kv_tile, key_at + k * COLUMNS * KEY_PITCH);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) queries[r] = GET(query_tile, query_at + r * ROW_GROUPS * QUERY_PITCH);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) [[unroll]] for (uint i = 0; i < 4; ++i)
        [[unroll]] for (uint k = 0, s = r * KEYS_OF_INVOCATION; k < KEYS_OF_INVOCATION; ++k, ++s) scores_of_rows[s] =
            dot_of_halves(queries[r][i], keys[k][i], scores_of_rows[s]);
}

// Weights of eight keys are an element, of two a word.
void put_weights(const uint r) {
    [[unroll]] for (uint k = 0; k < KEYS_OF_INVOCATION; k += 2) {
        uint position = column() * KEYS_OF_INVOCATION + k;
        uint at = weight_element(tile_row(0), position / 8) + r * ROW_GROUPS * WEIGHT_PITCH;
        vec2 pair = vec2(scores_of_rows[r * KEYS_OF_INVOCATION + k], scores_of_rows[r * KEYS_OF_INVOCATION + k + 1]);
        weight_tile[at][position / 2 % 4] = packFloat2x16(f16vec2(pair));
    }
}

// Adds the products of four pairs of keys from the pair number 4 * i of a chunk on.
#define SUM_PAIRS(chunk, i, weights_of_value)                                                                          \
    uint weight_at = small(weight_element(tile_row(0), (chunk) * (KEYS_OF_CHUNK / 8) + (i)));                          \
    uint value_at = small(4 * VALUE_PITCH * (i) + column());                                                           \
    uvec4 weights[ROWS];                                                                                               \
    [[unroll]] for (uint r = 0; r < ROWS; ++r) weights[r] = weight_tile[weight_at + r * ROW_GROUPS * WEIGHT_PITCH];    \
    [[unroll]] for (uint pair = 0; pair < 4; ++pair) [[unroll]] for (uint block = 0; block < BLOCKS; ++block) {        \
        uvec4 value = GET(kv_tile, value_at + pair * VALUE_PITCH + block * COLUMNS);                                   \
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {                                                                   \
            uint weight = weights[r][pair];                                                                            \
            [[unroll]] for (uint j = 0; j < 4; ++j) sums[r * BLOCKS + block][j] =                                      \
                dot_of_halves(weight, weights_of_value, sums[r * BLOCKS + block][j]);                                  \
        }                                                                                                              \
    }

void sum_chunk(uint chunk) {
    [[dont_unroll]] for (uint i = 0; i < KEYS_OF_CHUNK / 8; ++i) { SUM_PAIRS(chunk, i, value[j]) }
}

// The bits of the halves that are not 0.
uint bits_of_nonzero(uint halves) {
    return ((halves & 0xffffu) != 0 ? 0xffffu : 0) | (halves > 0xffffu ? 0xffff0000u : 0);
}

// The same to the bit, where a row may not see a key, and its value is not a number: it adds nothing.
void sum_seen_of_chunk(uint chunk) {
    [[dont_unroll]] for (uint i = 0; i < KEYS_OF_CHUNK / 8; ++i) {
        SUM_PAIRS(chunk, i, value[j] & bits_of_nonzero(weight))
    }
}

#endif
