/* Rows on their way into other memory, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_ROWS_H
#define VKATTN_INTERFACE_ROWS_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_ROWS_SOURCE 0
#define BINDING_ROWS_TARGET 1
#define BINDING_ROWS_PAST_LENGTHS 2
#define BINDING_ROWS_CU_SEQLENS 3
#define BINDING_ROWS_BLOCK_TABLE 4
#define BINDING_ROWS_LENGTHS 5
#define BINDING_ROWS_FREQUENCIES 6
#define BINDING_ROWS_SOURCE_SCALES 7
#define BINDING_ROWS_TARGET_SCALES 8
#define BINDING_ROWS_NORM 9
#define BINDING_ROWS_VALUES 10
#define BINDING_ROWS_VALUE_SCALES 11
#define BINDING_ROWS_QUERIES 12
#define BINDING_ROWS_QUERY_NORM 13
#define BINDING_ROWS_POSITIONS 14

#define ROWS_WORKGROUP_SIZE 64
#define ROWS_LARGEST_BLOCK 512 /* that is mixed, a power of two */
#define ROWS_WIDEST_TILE 2048  /* elements of a row that wait in shared memory at once */

/* cu_seqlens: each packed row goes where its sequence is; or rows of every sequence are read, those behind its end as if
 * they were its own (which costs nothing, and leaves no gaps) */
#define PACKED_NONE 0u
#define PACKED_SEQUENCES 1u
#define PACKED_AND_BEYOND 2u

/* which of the two has its rows in pages */
#define PAGED_NONE 0u
#define PAGED_SOURCE 1u
#define PAGED_TARGET 2u

/* which neighbours are pairs of the rotary embedding, where rows are rotated on their way: elements i and i + D / 2, or
 * 2 i and 2 i + 1 */
#define ROTATED_NONE 0u
#define ROTATED_HALVES 1u
#define ROTATED_INTERLEAVED 2u

/* scales of the target's rows: they are read, or made of the rows and written */
#define TARGET_SCALES_NONE 0u
#define TARGET_SCALES_READ 1u
#define TARGET_SCALES_MADE 2u

/* Parts of a dispatch are ranges of its heads: QUERY_HEADS of queries, which go into other memory as the rows that they are; keys;
 * and with KEY_HEADS, behind so many of them, values, which are neither normalised nor rotated
 * ROTATED_DIMS: elements of a row that are rotated, from ROTATED_FROM on, of queries from QUERY_ROTATED_FROM
 * NORM_DIM: elements of a row that are normalised, the first; of queries QUERY_NORM_DIM
 * HADAMARD: elements of the blocks that are mixed, a power of two; 0: none. Of queries where MIXES_QUERIES
 * SOURCE_SCALED: source has such scales
 * HAS_POSITIONS: rows are turned by the positions that are given
 * IN_FOURS: four neighbours at a time, from whole words to whole words */
#define ROWS_CONSTANTS(X)                                                                                              \
    X(0, SOURCE_FORMAT, 1)                                                                                             \
    X(1, TARGET_FORMAT, 1)                                                                                             \
    X(2, TARGET_PAIRS, 0)                                                                                              \
    X(3, HAS_PAST_LENGTHS, 0)                                                                                          \
    X(4, PACKED, 0)                                                                                                    \
    X(5, PAGED, 0)                                                                                                     \
    X(6, PAGE_SIZE, 8)                                                                                                 \
    X(7, HEAD_DIM, 2)                                                                                                  \
    X(8, IN_FOURS, 0)                                                                                                  \
    X(9, HAS_LENGTHS, 0)                                                                                               \
    X(10, ROTATED, 0)                                                                                                  \
    X(11, HADAMARD, 0)                                                                                                 \
    X(12, SOURCE_SCALED, 0)                                                                                            \
    X(13, TARGET_SCALES, 0)                                                                                            \
    X(14, NORM_FORMAT, 0)                                                                                              \
    X(15, NORM_DIM, 0)                                                                                                 \
    X(16, ROTATED_FROM, 0)                                                                                             \
    X(17, ROTATED_DIMS, 0)                                                                                             \
    X(18, KEY_HEADS, 0)                                                                                                \
    X(19, QUERY_HEADS, 0)                                                                                              \
    X(20, QUERY_DIM, 0)                                                                                                \
    X(21, QUERY_PAIRS, 0)                                                                                              \
    X(22, QUERY_ROTATED_FROM, 0)                                                                                       \
    X(23, QUERY_NORM_FORMAT, 0)                                                                                        \
    X(24, QUERY_NORM_DIM, 0)                                                                                           \
    X(25, QUERY_FORMAT, 1)                                                                                             \
    X(26, MIXES_QUERIES, 0)                                                                                            \
    X(27, HAS_POSITIONS, 0)

struct RowsPush {
    uint first_group[3];
    uint bases[4];
    uint source_strides[4]; /* batch, head, position, element */
    uint target_strides[4];
    uint positions;    /* tokens of a sequence, at most */
    uint capacity;     /* tokens that the target holds */
    uint offset;       /* position of the first token in the target; past_lengths takes its place */
    uint first;        /* token of the source that is the first to be copied */
    uint source_total; /* rows of a head of the source */
    uint pool_pages;
    uint table_pages; /* pages of a sequence in the block table */
    uint beyond;      /* rows beyond a sequence's length that are copied too; beside queries, where keys begin */
    uint sequences;   /* of the source */
    float scale;      /* of mixed rows */
    uint source_scale_strides[3]; /* batch, head, position; of what queries go into, where there are some */
    uint target_scale_strides[3];
    float epsilon; /* of the norms */
};

#ifdef __cplusplus
VKATTN_INTERFACE(rows, Rows, ROWS_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
