// The matrices of coopmat: their types, what a subgroup holds of them, and loops over them.
#ifndef COOPMAT_MATRICES_GLSL
#define COOPMAT_MATRICES_GLSL

#include "kernels/coopmat/tiles.glsl"

#define KEY_MATRIX coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define QUERY_MATRIX coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define VALUE_MATRIX KEY_MATRIX
#define WEIGHT_MATRIX QUERY_MATRIX
#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>

// Loops over matrices are unrolled, so that each matrix has its registers: nothing in them may be a loop that is not, else
// compilers index the matrices at run time, through branches or memory. ROLLED: loops, for a compiler that takes very long
// over unrolled ones.
#ifdef ROLLED
#define FOR_MATRICES(i, n) [[dont_unroll]] for (uint i = 0; i < (n); ++i)
#else
#define FOR_MATRICES(i, n) [[unroll]] for (uint i = 0; i < (n); ++i)
#endif

const uint QUERY_TILES = QUERY_DIMS / MATRIX_K;
const uint KEY_TILES = KEYS_OF_TILE / (MATRIX_M * DIM_SUBGROUPS);
const uint OUTPUT_TILES_OF_CHUNK = VALUE_CHUNK / DIMS_OF_STRIP;
const uint OUTPUT_TILES = VALUE_CHUNKS * OUTPUT_TILES_OF_CHUNK;

QUERY_MATRIX query_tiles[QUERY_IN_REGISTERS != 0 ? QUERY_TILES : 1];
ACCUMULATOR products[KEY_TILES];
ACCUMULATOR outputs[OUTPUT_TILES];

uint key_of_product(uint k) { return (k * DIM_SUBGROUPS + dim_subgroup()) * MATRIX_M; }
uint dim_of_output(uint t) { return (t * DIM_SUBGROUPS + dim_subgroup()) * MATRIX_M; } // t: of a chunk

#endif
