// How a workgroup of coopmat2 divides its work, and what it keeps in shared memory: K, V, and query rows where registers do not
// hold them. Takes the place of kernels/coopmat/tiles.glsl, and declares its names as far as kernels/coopmat/staging.glsl reads
// them. All are 16-bit elements, eight to a uvec4; each row has a gap of sixteen bytes behind it, so that neighbours lie in other
// banks.
#ifndef COOPMAT_TILES_GLSL
#define COOPMAT_TILES_GLSL

#include "attention/rows.glsl"
#include "common/subgroups.glsl"

// A unit holds its matrices together: the whole workgroup, or each of its subgroups.
const bool IS_WHOLE_WORKGROUP = MATRIX_SCOPE == gl_ScopeWorkgroup;
const uint UNIT_SIZE = IS_WHOLE_WORKGROUP ? WORKGROUP_SIZE : SUBGROUP_SIZE;
const uint UNIT_ROWS = MATRIX_M * ROW_MATRICES;
const uint UNITS = WORKGROUP_SIZE / UNIT_SIZE;
const uint TILE_ROWS = UNITS * UNIT_ROWS;

// Dims of Q and K, and of V, that one product takes.
const uint STEP_OF_KEYS = MATRIX_K * DIM_SUBGROUPS;
const uint STEP_OF_VALUES = MATRIX_N * DIM_SUBGROUPS;

const uint QUERY_DIMS = DIMS_OF_CHUNK; // those past the head's are zeros
const uint KEY_PITCH = QUERY_DIMS / 8 + 1;
const uint VALUE_DIMS = (V_HEAD_DIM + STEP_OF_VALUES - 1) / STEP_OF_VALUES * STEP_OF_VALUES;
const bool VALUES_BY_KEY = IS_WHOLE_WORKGROUP; // else a row a dim
const uint VALUE_PITCH = (VALUES_BY_KEY ? VALUE_DIMS : KEYS_OF_TILE) / 8 + 1;
const uint VALUE_TILE = KEYS_OF_TILE * KEY_PITCH;
const uint VALUE_END = VALUE_TILE + (VALUES_BY_KEY ? KEYS_OF_TILE : VALUE_DIMS) * VALUE_PITCH;

// Before the first tile and after the last one, a strip of each unit lies in their place: rows of a step of Q, or of the output in f32.
const uint QUERY_STRIP_PITCH = STEP_OF_KEYS / 8 + 1;
const uint STRIP_PITCH = STEP_OF_VALUES / 4 + 1;
const uint STRIP_SIZE = UNIT_ROWS * (QUERY_STRIP_PITCH > STRIP_PITCH ? QUERY_STRIP_PITCH : STRIP_PITCH);
const uint QUERY_TILE = VALUE_END > UNITS *STRIP_SIZE ? VALUE_END : UNITS *STRIP_SIZE;
const uint QUERY_PITCH = QUERY_DIMS / 8 + 1;

shared uvec4 tiles[QUERY_TILE + (1 - QUERY_IN_REGISTERS) * TILE_ROWS * QUERY_PITCH];

uint invocation() { return subgroup_index() * SUBGROUP_SIZE + subgroup_lane(); }
uint unit() { return IS_WHOLE_WORKGROUP ? 0 : subgroup_index(); }
uint place() { return IS_WHOLE_WORKGROUP ? invocation() : subgroup_lane(); } // in its unit
uint unit_row() { return unit() * UNIT_ROWS; }                               // of the tile, the first of the unit's
uint strip() { return unit() * STRIP_SIZE; }

RowTile rows; // of the workgroup

// Afterwards a unit sees what each of its invocations wrote.
void synchronise_unit() {
    if (IS_WHOLE_WORKGROUP)
        barrier();
    else
        subgroupBarrier();
}

#endif
