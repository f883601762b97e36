// What a workgroup of coopmat holds, and how Q, K and V come into shared memory: as 16-bit elements, eight to a uvec4,
// a row after the other with a gap between, so that neighbours lie in other banks.
#ifndef COOPMAT_TILES_GLSL
#define COOPMAT_TILES_GLSL

#include "attention/key_value.glsl"
#include "attention/key_walk.glsl"
#include "attention/query.glsl"
#include "attention/rows.glsl"
#include "attention/variant.glsl"
#include "common/matrix_element.glsl"

const uint ROW_SUBGROUPS = WORKGROUP_SIZE / (SUBGROUP_SIZE * DIM_SUBGROUPS);
const uint TILE_ROWS = ROW_SUBGROUPS * MATRIX_N;
// dims of K in a chunk, of V in a chunk, of all chunks; those past the head's are zeros
const uint DIMS_OF_STRIP = MATRIX_M * DIM_SUBGROUPS; // of the output, a matrix for each subgroup
const uint KEY_DIMS = (HEAD_DIM + MATRIX_K - 1) / MATRIX_K * MATRIX_K;
const uint KEY_CHUNK = DIMS_OF_CHUNK < KEY_DIMS ? DIMS_OF_CHUNK : KEY_DIMS;
const uint KEY_CHUNKS = (HEAD_DIM + KEY_CHUNK - 1) / KEY_CHUNK;
const uint VALUE_DIMS = (V_HEAD_DIM + DIMS_OF_STRIP - 1) / DIMS_OF_STRIP * DIMS_OF_STRIP;
const uint VALUE_CHUNK = DIMS_OF_CHUNK < VALUE_DIMS ? DIMS_OF_CHUNK : VALUE_DIMS;
const uint VALUE_CHUNKS = (V_HEAD_DIM + VALUE_CHUNK - 1) / VALUE_CHUNK;
const bool WHOLE_ROWS = KEY_CHUNKS * VALUE_CHUNKS == 1; // K and V are in shared memory at the same time

const uint PITCH = DIMS_OF_CHUNK / 8 + 1;
const uint VALUE_TILE = WHOLE_ROWS && VALUE_IN_KEY == 0 ? KEYS_OF_TILE * PITCH : 0; // where V begins
const uint KV_SIZE = VALUE_TILE + KEYS_OF_TILE * PITCH;

const uint QUERY_DIMS = KEY_CHUNKS * KEY_CHUNK;
const uint QUERY_PITCH = QUERY_DIMS / 8 + 1;
const uint QUERY_TILE =
    QUERY_IN_REGISTERS != 0 ? 0 : KV_SIZE; // in registers, it passes through where K and V come to lie
const uint QUERY_SIZE = TILE_ROWS * QUERY_PITCH;

// a strip of the output passes through, query rows of MATRIX_M f32
const uint STRIP_PITCH = MATRIX_M / 4 + 1;
const uint STRIP_SIZE = TILE_ROWS * DIM_SUBGROUPS * STRIP_PITCH;

const uint INPUT_SIZE = KV_SIZE > QUERY_TILE + QUERY_SIZE ? KV_SIZE : QUERY_TILE + QUERY_SIZE;
shared uvec4 tiles[INPUT_SIZE > STRIP_SIZE ? INPUT_SIZE : STRIP_SIZE];
shared uint last_special; // number of the last staging of values that met what is not finite

uint subgroup_row() { return gl_SubgroupID / DIM_SUBGROUPS * MATRIX_N; } // of the tile, the first of this subgroup's
uint dim_subgroup() { return gl_SubgroupID % DIM_SUBGROUPS; }
uint lane() { return gl_SubgroupID * SUBGROUP_SIZE + gl_SubgroupInvocationID; }

RowTile rows; // of the workgroup

// Eight neighbours each; dims past the head's are zeros.
uvec4 load_query_elements(Row row, uint dim) {
    if (dim >= HEAD_DIM) return uvec4(0);
    return pack_vector(load_query_vector(row, dim));
}

uvec4 load_key_elements(Row row, uint key, uint dim) {
    if (dim >= HEAD_DIM) return uvec4(0);
    if (KEY_FORMAT == MATRIX_FORMAT && has(FEATURE_KEY_ALIGNED)) return key_load8_halves(key_element(row, key) + dim);
    return pack_vector(load_key_vector(row, key, dim));
}

uvec4 load_value_elements(Row row, uint key, uint dim) {
    if (dim >= V_HEAD_DIM) return uvec4(0);
    if (VALUE_FORMAT == MATRIX_FORMAT && has(FEATURE_VALUE_ALIGNED))
        return value_load8_halves(value_element(row, key) + dim);
    return pack_vector(load_value_vector(row, key, dim));
}

void stage_query() {
    const uint vectors = QUERY_DIMS / 8;
    for (uint i = gl_LocalInvocationID.x; i < TILE_ROWS * vectors; i += WORKGROUP_SIZE)
        tiles[QUERY_TILE + i / vectors * QUERY_PITCH + i % vectors] =
            load_query_elements(row_of_tile(rows, i / vectors), i % vectors * 8);
}

// Not 0: a key of a tile may be hidden from some of its rows and not from others.
const uint HIDES_KEYS = HIDES_FROM_SOME_ROWS | PAGE_SIZE;

// Keys past the end are zeros, so that what lies there is neither read nor multiplied. number: of this staging of
// values, from 1 on, where V is in K.
void stage_keys(KeyTile tile, uint chunk, uint number) {
    const uint vectors = KEY_CHUNK / 8;
    Row row = row_of_tile(rows, 0);
    for (uint i = gl_LocalInvocationID.x; i < KEYS_OF_TILE * vectors; i += WORKGROUP_SIZE) {
        uint key = tile.first + i / vectors;
        uvec4 elements = key < tile.end ? load_key_elements(row, key, chunk * KEY_CHUNK + i % vectors * 8) : uvec4(0);
        if (HIDES_KEYS != 0 && WHOLE_ROWS && VALUE_IN_KEY != 0 && !are_finite(elements))
            atomicMax(last_special, number);
        tiles[i / vectors * PITCH + i % vectors] = elements;
    }
}

// number: of this staging, from 1 on.
void stage_values(KeyTile tile, uint chunk, uint part, uint number) {
    const uint vectors = VALUE_CHUNK / 8;
    Row row = row_of_tile(rows, 0);
    for (uint i = gl_LocalInvocationID.x; i < KEYS_OF_TILE * vectors; i += WORKGROUP_SIZE) {
        uint key = tile.first + i / vectors;
        uvec4 elements =
            key < tile.end ? load_value_elements(row, key, chunk * VALUE_CHUNK + i % vectors * 8) : uvec4(0);
        if (HIDES_KEYS != 0 && !are_finite(elements)) atomicMax(last_special, number);
        tiles[VALUE_TILE + i / vectors * PITCH + i % vectors] = part_of_elements(elements, part);
    }
}

#endif
