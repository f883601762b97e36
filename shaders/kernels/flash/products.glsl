// The two products of flash, in f32: of queries and keys, and of weights and values.
#ifndef FLASH_PRODUCTS_GLSL
#define FLASH_PRODUCTS_GLSL

// What weights are relative to, of the largest score.
float reference_of(float maximum) { return maximum; }

void score_element(uint key_at, uint query_at) {
    ELEMENT keys[KEYS_OF_INVOCATION], queries[ROWS];
    [[unroll]] for (uint k = 0; k < KEYS_OF_INVOCATION; ++k) keys[k] = GET(kv_tile, key_at + k * COLUMNS * KEY_PITCH);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) queries[r] = GET(query_tile, query_at + r * ROW_GROUPS * QUERY_PITCH);
    [[unroll]] for (uint block = 0; block < BLOCKS_OF_ELEMENT; ++block) {
        vec4 k4[KEYS_OF_INVOCATION];
        [[unroll]] for (uint k = 0; k < KEYS_OF_INVOCATION; ++k) k4[k] = block_of(KEY_FORMAT, keys[k], block);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            vec4 q4 = block_of(QUERY_FORMAT, queries[r], block);
            [[unroll]] for (uint i = 0; i < 4; ++i)
                [[unroll]] for (uint k = 0, s = r * KEYS_OF_INVOCATION; k < KEYS_OF_INVOCATION; ++k, ++s)
                    scores_of_rows[s] = fma(q4[i], k4[k][i], scores_of_rows[s]);
        }
    }
}

// Stores this column's weights of a row, for all columns to see.
void put_weights(const uint r) {
    [[unroll]] for (uint k = 0; k < KEYS_OF_INVOCATION; ++k)
        put_number(r, k, scores_of_rows[r * KEYS_OF_INVOCATION + k]);
}

void sum_chunk(uint chunk) {
    [[dont_unroll]] for (uint i = 0; i < KEYS_OF_CHUNK / 4; ++i) {
        uint weight_at = small(weight_element(tile_row(0), chunk * (KEYS_OF_CHUNK / 4) + i));
        uint value_at = small(4 * VALUE_PITCH * i + column());
        vec4 weights[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) weights[r] = weight_tile[weight_at + r * ROW_GROUPS * WEIGHT_PITCH];
        [[unroll]] for (uint k = 0; k < 4; ++k) [[unroll]] for (uint block = 0; block < BLOCKS; ++block) {
            ELEMENT element = GET(kv_tile, value_at + k * VALUE_PITCH + block / BLOCKS_OF_ELEMENT * COLUMNS);
            vec4 value = block_of(VALUE_FORMAT, element, block % BLOCKS_OF_ELEMENT);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r * BLOCKS + block] =
                fma(vec4(weights[r][k]), value, sums[r * BLOCKS + block]);
        }
    }
}

// The same to the bit, where a row may not see a key, and its value is not a number: it adds nothing.
void sum_seen_of_chunk(uint chunk) {
    [[dont_unroll]] for (uint i = 0; i < KEYS_OF_CHUNK; ++i) {
        uint weight_at = small(weight_element(tile_row(0), chunk * (KEYS_OF_CHUNK / 4) + i / 4));
        uint value_at = small(VALUE_PITCH * i + column());
        [[unroll]] for (uint block = 0; block < BLOCKS; ++block) {
            ELEMENT element = GET(kv_tile, value_at + block / BLOCKS_OF_ELEMENT * COLUMNS);
            vec4 value = block_of(VALUE_FORMAT, element, block % BLOCKS_OF_ELEMENT);
            [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                float weight = weight_tile[weight_at + r * ROW_GROUPS * WEIGHT_PITCH][i % 4];
                vec4 sum = sums[r * BLOCKS + block];
                sums[r * BLOCKS + block] = weight == 0.0 ? sum : fma(vec4(weight), value, sum);
            }
        }
    }
}

#endif
