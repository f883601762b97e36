// The matrices of coopmat: their types, what a subgroup holds of them, and loops over them.
#ifndef COOPMAT_MATRICES_GLSL
#define COOPMAT_MATRICES_GLSL

#include "common/matrices.glsl"
#include "kernels/coopmat/tiles.glsl"

// Rows of S = Q K^T and of O = P V are query rows. K and V are their products' columns: in shared memory a key of K, and a
// dim of V, is a row.
#define QUERY_MATRIX MATRIX_A
#define KEY_MATRIX MATRIX_B
#define WEIGHT_MATRIX MATRIX_A
#define VALUE_MATRIX MATRIX_B

// Weights pass through shared memory as what sums are rounded to, or, where sums can be converted, as what they become.
#ifdef LOADS_AHEAD
#define ROUNDED_WEIGHTS WEIGHT_MATRIX
#define ROUND_WEIGHTS(rounded, weights) rounded = WEIGHT_MATRIX(weights)
#else
#define ROUNDED_WEIGHTS ROUNDED_SUMS
#define ROUND_WEIGHTS ROUND_MATRIX
#endif

// Loops over matrices are unrolled, so that each matrix has its registers: nothing in them may be a loop that is not, else
// compilers index the matrices at run time, through branches or memory. ROLLED: loops, for a compiler that takes very long
// over unrolled ones.
#ifdef ROLLED
#define FOR_MATRICES(i, n) [[dont_unroll]] for (uint i = 0; i < (n); ++i)
#else
#define FOR_MATRICES(i, n) [[unroll]] for (uint i = 0; i < (n); ++i)
#endif

const uint QUERY_TILES = QUERY_DIMS / MATRIX_K;
const uint KEY_TILES = KEYS_OF_TILE / DIMS_OF_STRIP; // of a subgroup
const uint OUTPUT_TILES = VALUE_DIMS / DIMS_OF_STRIP;

// By row matrix, then by key or dim.
QUERY_MATRIX query_tiles[QUERY_IN_REGISTERS != 0 ? ROW_MATRICES * QUERY_TILES : 1];
SUMS scores_of_tile[ROW_MATRICES * KEY_TILES];
SUMS outputs[ROW_MATRICES * OUTPUT_TILES];

uint key_of_tile(uint k) { return (dim_subgroup() * KEY_TILES + k) * MATRIX_N; }
uint dim_of_output(uint t) { return (dim_subgroup() * OUTPUT_TILES + t) * MATRIX_N; }

#endif
