/* The types that tensors are stored in, a row each, read by GLSL and by C++; shaders/formats has the code of each.
 *
 * ROW(NAME, name, number, elements, bytes, KIND, width, USES):
 *   number            vkattn_type's
 *   elements, bytes   of a block: what is stored together
 *   KIND              FLOAT, INTEGER or BOOLEAN; of quantised blocks SCALED: an element is scale * number, AFFINE:
 *                     scale * number + minimum, or LISTED: scale * the number's entry in IQ4_NL_ENTRIES; of blocks
 *                     without a scale E4M3 or E5M2: OCP's floats of 8 bits
 *   width             bits of an element's number; ggml's order: the f16 scale, the f16 minimum, the fifth bits of 32 numbers,
 *                     then signed bytes, or half bytes: the low ones are the first half of the numbers. The numbers of
 *                     SCALED half bytes are above zero by half their range. Of super-blocks: formats/super_blocks.glsl
 *   USES              NONE; CACHED: K and V have the type, and rows are appended in it; WEIGHT; ANY: both */
#ifndef VKATTN_INTERFACE_STORED_TYPES_H
#define VKATTN_INTERFACE_STORED_TYPES_H

/* clang-format off */
#define FLOAT_TYPES(ROW)                              \
    ROW(F32,  f32,  1, 1,  4,  FLOAT,   32, ANY)      \
    ROW(F16,  f16,  2, 1,  2,  FLOAT,   16, ANY)      \
    ROW(BF16, bf16, 3, 1,  2,  FLOAT,   16, ANY)
#define OTHER_TYPES(ROW)                              \
    ROW(BOOL, bool, 4, 1,  1,  BOOLEAN, 8,  NONE)     \
    ROW(I32,  i32,  5, 1,  4,  INTEGER, 32, NONE)
#define CACHED_BLOCK_TYPES(ROW)                       \
    ROW(Q8_0, q8_0, 6, 32, 34, SCALED,  8,  ANY)      \
    ROW(Q4_0, q4_0, 7, 32, 18, SCALED,  4,  ANY)      \
    ROW(Q4_1, q4_1, 8, 32, 20, AFFINE,  4,  ANY)      \
    ROW(Q5_0, q5_0, 9, 32, 22, SCALED,  5,  ANY)      \
    ROW(Q5_1, q5_1, 10, 32, 24, AFFINE, 5,  ANY)      \
    ROW(IQ4_NL, iq4_nl, 11, 32, 18, LISTED, 4, ANY)   \
    ROW(F8_E4M3, f8_e4m3, 12, 32, 32, E4M3, 8, CACHED) \
    ROW(F8_E5M2, f8_e5m2, 13, 32, 32, E5M2, 8, CACHED)
#define SUPER_BLOCK_TYPES(ROW)                        \
    ROW(Q4_K, q4_K, 14, 256, 144, AFFINE, 4, WEIGHT)  \
    ROW(Q5_K, q5_K, 15, 256, 176, AFFINE, 5, WEIGHT)  \
    ROW(Q6_K, q6_K, 16, 256, 210, SCALED, 6, WEIGHT)
#define BLOCK_TYPES(ROW) CACHED_BLOCK_TYPES(ROW) SUPER_BLOCK_TYPES(ROW)
#define STORED_TYPES(ROW) FLOAT_TYPES(ROW) OTHER_TYPES(ROW) BLOCK_TYPES(ROW)
/* clang-format on */

/* The elements of every block of CACHED_BLOCK_TYPES; of SUPER_BLOCK_TYPES a block has more. */
#define QUANTISED_BLOCK 32u

/* What the half bytes of IQ4_NL stand for. */
#define IQ4_NL_ENTRIES -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113

#ifndef __cplusplus
#define FORMAT_NONE 0u
#define FORMAT_CONSTANT(NAME, name, number, elements, bytes, KIND, width, USES) const uint FORMAT_##NAME = number;
#ifdef QUANTISED_WEIGHT /* modules whose weight is quantised */
#define READ_BLOCK_TYPES(ROW) BLOCK_TYPES(ROW)
#else
#define READ_BLOCK_TYPES(ROW) CACHED_BLOCK_TYPES(ROW)
#endif
FLOAT_TYPES(FORMAT_CONSTANT) OTHER_TYPES(FORMAT_CONSTANT) READ_BLOCK_TYPES(FORMAT_CONSTANT)
#define SCALED 0u
#define AFFINE 1u
#define LISTED 2u
#define E4M3 3u
#define E5M2 4u
#endif

#endif
