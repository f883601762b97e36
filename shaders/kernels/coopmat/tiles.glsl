// How a workgroup of coopmat divides its work, and what it keeps in shared memory: K, V with keys along its rows, query
// rows where registers do not hold them, weights, and for each subgroup a strip through which one matrix passes. All are
// 16-bit elements, eight to a uvec4, or f32 in the strips; each row has a gap of sixteen bytes behind it, so that
// neighbours lie in other banks.
#ifndef COOPMAT_TILES_GLSL
#define COOPMAT_TILES_GLSL

#include "attention/rows.glsl"
#include "common/subgroups.glsl"

const uint SUBGROUPS = WORKGROUP_SIZE / SUBGROUP_SIZE;
const uint ROW_SUBGROUPS = SUBGROUPS / DIM_SUBGROUPS;
const uint SUBGROUP_ROWS = MATRIX_M * ROW_MATRICES;
const uint TILE_ROWS = ROW_SUBGROUPS * SUBGROUP_ROWS;

// K passes in chunks of its dims; those past the head's are zeros.
const uint KEY_CHUNKS = (HEAD_DIM + DIMS_OF_CHUNK - 1) / DIMS_OF_CHUNK;
const uint KEY_PITCH = DIMS_OF_CHUNK / 8 + 1;
const uint KEY_SIZE = KEYS_OF_TILE * KEY_PITCH;

// V passes in chunks of its keys, a row a dim; dims past the head's are zeros.
const uint DIMS_OF_STRIP = MATRIX_N * DIM_SUBGROUPS; // a matrix of the output for each subgroup
const uint VALUE_DIMS = (V_HEAD_DIM + DIMS_OF_STRIP - 1) / DIMS_OF_STRIP * DIMS_OF_STRIP;
const uint VALUE_CHUNKS = KEYS_OF_TILE / KEYS_OF_CHUNK;
#ifdef LOADS_AHEAD // but whole as it is stored, a row a key: the devices that have this transpose as they load matrices
const bool VALUES_BY_KEY = true;
const uint VALUE_PITCH = VALUE_DIMS / 8 + 1;
const uint VALUE_SIZE = KEYS_OF_CHUNK * VALUE_PITCH;
#else
const bool VALUES_BY_KEY = false;
const uint VALUE_PITCH = KEYS_OF_CHUNK / 8 + 1;
const uint VALUE_SIZE = VALUE_DIMS * VALUE_PITCH;
#endif

const uint VALUE_TILE = KEY_SIZE * (1 - TAKES_TURNS); // where V begins: where K does, if they take turns
const uint VALUE_END = VALUE_TILE + VALUE_SIZE;
const uint QUERY_TILE = VALUE_END > KEY_SIZE ? VALUE_END : KEY_SIZE;
const uint QUERY_DIMS = KEY_CHUNKS * DIMS_OF_CHUNK;
const uint QUERY_PITCH = QUERY_DIMS / 8 + 1;
const uint WEIGHT_TILE = QUERY_TILE + TILE_ROWS * QUERY_PITCH * (1 - QUERY_IN_REGISTERS);

// A strip has as many columns as a matrix of scores. Subgroups that have their rows alone have their weights and their
// strip in one place. Those that share rows have their strips where K was, if there is room.
const uint WEIGHT_PITCH = KEYS_OF_TILE / 8 + 1;
#ifdef LOADS_AHEAD // weights need not leave the registers of a subgroup that has its rows alone, unless some are dropped
const uint KEEPS_WEIGHTS = uint(DIM_SUBGROUPS == 1) * uint((FEATURES & FEATURE_DROPOUT) == 0);
#else
const uint KEEPS_WEIGHTS = 0;
#endif
const uint WEIGHT_SIZE = SUBGROUP_ROWS * WEIGHT_PITCH * (1 - KEEPS_WEIGHTS);
const uint STRIP_PITCH = MATRIX_N / 4 + 1;
const uint STRIP_SIZE = SUBGROUP_ROWS * STRIP_PITCH;
const uint SHARES_ROWS = uint(DIM_SUBGROUPS > 1);
const uint ROOM_OF_KEYS = QUERY_TILE * TAKES_TURNS + KEY_SIZE * (1 - TAKES_TURNS);
const uint STRIPS_OVER_KEYS = SHARES_ROWS * uint(SUBGROUPS * STRIP_SIZE <= ROOM_OF_KEYS);
const uint STRIP_OF_WEIGHTS = STRIP_SIZE * (1 - SHARES_ROWS);
const uint WEIGHT_SLOT = WEIGHT_SIZE > STRIP_OF_WEIGHTS ? WEIGHT_SIZE : STRIP_OF_WEIGHTS;
const uint WEIGHT_END = WEIGHT_TILE + ROW_SUBGROUPS * WEIGHT_SLOT;
const uint STRIPS_ALONE = SHARES_ROWS * (1 - STRIPS_OVER_KEYS);
const uint STRIP_TILE = WEIGHT_TILE * (1 - SHARES_ROWS) + WEIGHT_END * STRIPS_ALONE;
const uint STRIP_SLOT = WEIGHT_SLOT * (1 - SHARES_ROWS) + STRIP_SIZE * SHARES_ROWS;

shared uvec4 tiles[WEIGHT_END + SUBGROUPS * STRIP_SIZE * STRIPS_ALONE];

// 0, which compilers cannot know: what an invocation makes of its number is made where it is used, and takes no registers
// all through the loop over keys.
uint hidden_zero = 0;

uint subgroup() { return subgroup_index() + hidden_zero; }
uint lane() { return subgroup_lane() + hidden_zero; }
uint invocation() { return subgroup() * SUBGROUP_SIZE + lane(); }
uint row_subgroup() { return subgroup() / DIM_SUBGROUPS; }
uint dim_subgroup() { return subgroup() % DIM_SUBGROUPS; }
uint subgroup_row() { return row_subgroup() * SUBGROUP_ROWS; } // of the tile, the first of this subgroup's
uint strip() { return STRIP_TILE + subgroup() * STRIP_SLOT; }
uint weights_of_rows() { return WEIGHT_TILE + row_subgroup() * WEIGHT_SLOT; }

RowTile rows; // of the workgroup

// Afterwards the subgroups that share rows see what each of them wrote.
void synchronise_rows() {
    if (DIM_SUBGROUPS == 1)
        subgroupBarrier();
    else
        barrier();
}

#endif
