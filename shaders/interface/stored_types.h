/* The types that tensors are stored in, a row each, read by GLSL and by C++; shaders/formats has the code of each.
 *
 * ROW(with, NAME, name, number, elements, bytes, KIND, width, USES), where `with` is what the reader of the list hands in:
 *   number            vkattn_type's
 *   elements, bytes   of a block: what is stored together
 *   KIND              FLOAT, INTEGER or BOOLEAN; of quantised blocks SCALED: an element is scale * number, or
 *                     AFFINE: scale * number + minimum
 *   width             bits of an element's number; ggml's order: the f16 scale, the f16 minimum, the fifth bits of 32 numbers,
 *                     then signed bytes, or half bytes: the low ones are the first half of the numbers. The numbers of
 *                     SCALED half bytes are above zero by half their range.
 *   USES              NONE; CACHED: K and V have the type, and rows are appended in it; WEIGHT; ANY: both */
#ifndef VKATTN_INTERFACE_STORED_TYPES_H
#define VKATTN_INTERFACE_STORED_TYPES_H

/* clang-format off */
#define STORED_TYPES(ROW, with)                              \
    ROW(with, F32,  f32,  1, 1,  4,  FLOAT,   32, ANY)       \
    ROW(with, F16,  f16,  2, 1,  2,  FLOAT,   16, ANY)       \
    ROW(with, BF16, bf16, 3, 1,  2,  FLOAT,   16, ANY)       \
    ROW(with, BOOL, bool, 4, 1,  1,  BOOLEAN, 8,  NONE)      \
    ROW(with, I32,  i32,  5, 1,  4,  INTEGER, 32, NONE)      \
    ROW(with, Q8_0, q8_0, 6, 32, 34, SCALED,  8,  CACHED)    \
    ROW(with, Q4_0, q4_0, 7, 32, 18, SCALED,  4,  CACHED)
/* clang-format on */

/* The elements of every quantised block that K and V have. */
#define QUANTISED_BLOCK 32u

#ifndef __cplusplus
#define FORMAT_NONE 0u
#define FORMAT_CONSTANT(with, NAME, name, number, elements, bytes, KIND, width, USES) const uint FORMAT_##NAME = number;
STORED_TYPES(FORMAT_CONSTANT, 0)

/* Code for rows of a kind or a use alone: IF_FLOAT_ ## KIND(code). */
#define IF_FLOAT_FLOAT(code) code
#define IF_FLOAT_INTEGER(code)
#define IF_FLOAT_BOOLEAN(code)
#define IF_FLOAT_SCALED(code)
#define IF_FLOAT_AFFINE(code)
#define IF_BLOCKS_FLOAT(code)
#define IF_BLOCKS_INTEGER(code)
#define IF_BLOCKS_BOOLEAN(code)
#define IF_BLOCKS_SCALED(code) code
#define IF_BLOCKS_AFFINE(code) code
#define IF_MINIMUM_FLOAT(code)
#define IF_MINIMUM_INTEGER(code)
#define IF_MINIMUM_BOOLEAN(code)
#define IF_MINIMUM_SCALED(code)
#define IF_MINIMUM_AFFINE(code) code
#define IF_CACHED_NONE(code)
#define IF_CACHED_CACHED(code) code
#define IF_CACHED_WEIGHT(code)
#define IF_CACHED_ANY(code) code

/* 1 or 0, also where a constant expression stands. */
#define COUNT_BLOCKS(with, NAME, name, number, elements, bytes, KIND, width, USES)                                     \
    IF_BLOCKS_##KIND(+uint(with == FORMAT_##NAME))
#define COUNT_MINIMUM(with, NAME, name, number, elements, bytes, KIND, width, USES)                                    \
    IF_MINIMUM_##KIND(+uint(with == FORMAT_##NAME))
#define FORMAT_IS_QUANTISED(format) (0u STORED_TYPES(COUNT_BLOCKS, format))
#define FORMAT_HAS_MINIMUM(format) (0u STORED_TYPES(COUNT_MINIMUM, format))
#endif

#endif

/* The code of each type: of elements, or of blocks where BLOCK or ENCODES_BLOCKS is defined. */
#ifdef INCLUDES_FORMATS
#undef INCLUDES_FORMATS
#include "formats/bf16.glsl"
#include "formats/f16.glsl"
#include "formats/f32.glsl"
#include "formats/q4_0.glsl"
#include "formats/q8_0.glsl"
#endif
