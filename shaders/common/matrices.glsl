// The matrices that a subgroup multiplies, through GL_KHR_cooperative_matrix: A is M x K and B is K x N, of 16-bit elements;
// sums are M x N and f32, or rounded to 16 bits. Where EMULATED_SUBGROUPS is defined they are made of shared memory.
#ifndef MATRICES_GLSL
#define MATRICES_GLSL

#include "common/matrix_element.glsl"
#include "common/subgroups.glsl"

#ifdef EMULATED_SUBGROUPS
#include "emulated/matrices.glsl"
#else
#define MATRIX_A coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define MATRIX_B coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define SUMS coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define ROUNDED_SUMS coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define ZEROS SUMS(0.0)
#define ONES_OF_B MATRIX_B(MATRIX_ELEMENT(1.0))
#define ROUND_MATRIX(rounded, matrix) rounded = ROUNDED_SUMS(matrix)
#define ADD_TO_MATRIX(matrix, other) matrix += other
#define SUBTRACT_FROM_MATRIX(matrix, other) matrix -= other
#define MULTIPLY_MATRIX(matrix, other) matrix *= other
#define FOR_ELEMENTS(i, matrix) [[unroll]] for (int i = 0; i < (matrix).length(); ++i)
const int ROWS_IN_MEMORY = gl_CooperativeMatrixLayoutRowMajor;
const int COLUMNS_IN_MEMORY = gl_CooperativeMatrixLayoutColumnMajor;
#endif

#endif
