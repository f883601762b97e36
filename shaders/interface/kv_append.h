/* Appending to KV caches, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_KV_APPEND_H
#define VKATTN_INTERFACE_KV_APPEND_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_APPEND_SOURCE 0
#define BINDING_APPEND_CACHE 1
#define BINDING_APPEND_PAST_LENGTHS 2
#define BINDING_APPEND_CU_SEQLENS 3
#define BINDING_APPEND_BLOCK_TABLE 4
#define BINDING_APPEND_LENGTHS 5
#define BINDING_APPEND_FREQUENCIES 6
#define BINDING_APPEND_SOURCE_SCALES 7
#define BINDING_APPEND_CACHE_SCALES 8
#define BINDING_APPEND_NORM 9
#define BINDING_APPEND_VALUES 10
#define BINDING_APPEND_VALUE_SCALES 11
#define BINDING_APPEND_QUERIES 12
#define BINDING_APPEND_QUERY_NORM 13

/* cu_seqlens: each packed row goes where its sequence is; or rows of every sequence are read, those behind its end as if
 * they were its own (which costs nothing, and leaves no gaps) */
#define PACKED_NONE 0u
#define PACKED_SEQUENCES 1u
#define PACKED_AND_BEYOND 2u

/* which of the two has its rows in pages */
#define PAGED_NONE 0u
#define PAGED_SOURCE 1u
#define PAGED_CACHE 2u

/* which neighbours are pairs of the rotary embedding, where rows are rotated on their way: elements i and i + D / 2, or
 * 2 i and 2 i + 1 */
#define ROTATED_NONE 0u
#define ROTATED_HALVES 1u
#define ROTATED_INTERLEAVED 2u

/* scales of the cache's rows, vkattn_kv_scales: they are read, or made of the rows and written */
#define CACHE_SCALES_NONE 0u
#define CACHE_SCALES_READ 1u
#define CACHE_SCALES_MADE 2u

/* Parts of a dispatch are ranges of its heads: QUERY_HEADS of queries, which go into other memory as the rows that they are; keys;
 * and with KEY_HEADS, behind so many of them, values, which are neither normalised nor rotated
 * ROTATED_DIMS: elements of a row that are rotated, from ROTATED_FROM on, of queries from QUERY_ROTATED_FROM
 * NORM_DIM: elements of a row that are normalised, the first; of queries QUERY_NORM_DIM
 * HADAMARD: elements of the blocks of the Walsh-Hadamard transform that rows go through on their way, after the rotary
 * embedding; 0: none
 * SOURCE_SCALED: source has such scales
 * IN_BLOCKS: four neighbours at a time, from whole words to whole words */
#define APPEND_CONSTANTS(X)                                                                                            \
    X(0, SOURCE_FORMAT, 1)                                                                                             \
    X(1, CACHE_FORMAT, 1)                                                                                              \
    X(2, CACHE_PAIRS, 0)                                                                                               \
    X(3, HAS_PAST_LENGTHS, 0)                                                                                          \
    X(4, PACKED, 0)                                                                                                    \
    X(5, PAGED, 0)                                                                                                     \
    X(6, PAGE_SIZE, 8)                                                                                                 \
    X(7, HEAD_DIM, 2)                                                                                                  \
    X(8, IN_BLOCKS, 0)                                                                                                 \
    X(9, HAS_LENGTHS, 0)                                                                                               \
    X(10, ROTATED, 0)                                                                                                  \
    X(11, HADAMARD, 0)                                                                                                 \
    X(12, SOURCE_SCALED, 0)                                                                                            \
    X(13, CACHE_SCALES, 0)                                                                                             \
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
    X(24, QUERY_NORM_DIM, 0)

struct AppendPush {
    uint first_group[3];
    uint bases[4];
    uint source_strides[4]; /* batch, head, position, element */
    uint cache_strides[4];
    uint positions;    /* tokens of a sequence, at most */
    uint capacity;     /* tokens that the cache holds */
    uint offset;       /* cache position of the first token; past_lengths takes its place */
    uint first;        /* token of the source that is the first to be copied */
    uint source_total; /* rows of a packed source */
    uint pool_pages;
    uint table_pages; /* pages of a sequence in the block table */
    uint beyond;      /* rows beyond a sequence's length that are copied too; beside queries, where keys begin */
    uint sequences;   /* of a packed source */
    float scale;      /* of the transform */
    uint source_scale_strides[3]; /* batch, head, position; of what queries go into, where there are some */
    uint cache_scale_strides[3];
    float epsilon; /* of the norms */
};

#ifdef __cplusplus
VKATTN_INTERFACE(kv_append, Append, APPEND_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
