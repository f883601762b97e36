/* Attention, what its kernels and the host agree on: bindings, constants, uniform block, push constants. */
#ifndef VKATTN_INTERFACE_ATTENTION_H
#define VKATTN_INTERFACE_ATTENTION_H

#include "attention_numbers.h"

/* The gradients of attention, X(binding, name, NAME): of each d_NAME the strides of batch, head, position and dim are in the uniform block,
 * as d_NAME_strides, and the constant D_NAME_FORMAT says what it is. In GLSL, modules of the backward pass alone know them, by
 * HAS_GRADIENTS. Bindings that those modules do not share with attention. */
#define ATTENTION_GRADIENTS(X)                                                                                         \
    X(20, d_output, D_OUTPUT)                                                                                          \
    X(22, d_query, D_QUERY)                                                                                            \
    X(23, d_key, D_KEY)                                                                                                \
    X(27, d_value, D_VALUE)                                                                                            \
    X(13, d_attn_mask, D_ATTN_MASK)

#ifdef __cplusplus
#define HAS_GRADIENTS
namespace vkattn {
#endif

#define VKATTN_GRADIENT_NUMBERS(binding, name, NAME) VKATTN_NUMBER(BINDING_##NAME, binding)
ATTENTION_GRADIENTS(VKATTN_GRADIENT_NUMBERS)
VKATTN_NUMBER(BINDING_D_SINKS, 25)
VKATTN_NUMBER(BINDING_D_CAPTURED, 22)
VKATTN_NUMBER(BINDING_CAPTURED_SUMS, 11) /* in the workspace: see attention/captured_sums.glsl */
VKATTN_NUMBER(CAPTURED_SUM_WORDS, 11)
VKATTN_NUMBER(CAPTURED_STAGE_TILES, 0)
VKATTN_NUMBER(CAPTURED_STAGE_ZEROS, 1)
VKATTN_NUMBER(CAPTURED_STAGE_VALUES, 2)
VKATTN_NUMBER(BINDING_DELTA, 21)   /* in the workspace: of each row the sum of output * d_output */
VKATTN_NUMBER(BINDING_CARRIES, 12) /* in the workspace: sums between dispatches, see attention/carries.glsl */

#ifdef __cplusplus
} // namespace vkattn
#endif

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

/* Bits of features: code that a problem needs. 0 to 31 are in the constant FEATURES, which has() asks, 32 to 63 in
 * MORE_FEATURES, which has_more() asks. Those of tensors, flags and numbers are in attention_tensors.h and attention_numbers.h;
 * 27 to 39 and 53 to 63 are free. */
/* _PAIRS: element offsets of every vector of the tensor are even, so that two 16-bit values share one word */
#define FEATURE_QUERY_PAIRS (1u << 11)
#define FEATURE_KEY_PAIRS (1u << 12)
#define FEATURE_VALUE_PAIRS (1u << 13)
#define FEATURE_OUTPUT_PAIRS (1u << 14)
#define FEATURE_SHORT_MASK (1u << 15)   /* the mask ends before kv_len */
#define FEATURE_BOTTOM_RIGHT (1u << 19) /* a sequence's offset is its number of keys less its number of queries */
#define FEATURE_SPLIT_KEYS (1u << 21)   /* several dispatches in turn, each over a range of keys */
/* _ALIGNED: every vector of the tensor has a multiple of eight elements without gaps, begins at a multiple of eight
 * elements, and is not quantised */
#define FEATURE_KEY_ALIGNED (1u << 22)
#define FEATURE_VALUE_ALIGNED (1u << 23)
#define FEATURE_QUERY_ALIGNED (1u << 25)
#define FEATURE_PARTS (1u << 26) /* each row's keys are split into parts, for merge_parts to join */

/* in MORE_FEATURES: value_scales differ among the keys of a sequence's head: bit 44 */
#define MORE_FEATURE_VALUE_SCALES_OF_KEYS (1u << 12)
#define MORE_FEATURE_MASK_IN_TURN (1u << 14)  /* attn_mask has a divisor of the entries or heads: bit 46 */
#define MORE_FEATURE_OWN_KEYS_LAST (1u << 15) /* without a past tree_mask is of a sequence's last keys: bit 47 */

/* index, in MORE_FEATURES: bits 48 on */
#define MORE_FEATURE_INDEX_RELU (1u << 16)
#define MORE_FEATURE_INDEX_MAX_OF_HEADS (1u << 17)
#define MORE_FEATURE_INDEX_MEAN_OF_KEYS (1u << 18)
#define MORE_FEATURE_INDEX_WEIGHTS (1u << 19)
#define MORE_FEATURE_INDEX_NO_HEADS (1u << 20)

/* what merge_parts reads of them */
#define FEATURES_OF_MERGE_PARTS                                                                                        \
    (FEATURE_SINKS | FEATURE_LOG_SUM_EXP | FEATURE_OUTPUT_PAIRS | FEATURE_CU_SEQLENS_Q | FEATURE_PARTS)

#define KV_HEADS_GROUPED 0u
#define KV_HEADS_MODULO 1u

/* vkattn_block_state; what is neither of the others is partial */
#define BLOCK_HIDDEN 0u
#define BLOCK_PARTIAL 1u
#define BLOCK_FULL 2u

#define SCORES_SCALED 0u
#define SCORES_CAPPED 1u
#define SCORES_MASKED 2u
#define SCORES_WEIGHTS 3u

#define BLOCKS_OF_CAREFUL_ITERATION 4u /* of cpu/careful_row.glsl */
#define KEYS_OF_UNFUSED_ITERATION 4u
#define GRADIENTS_LARGEST 16u /* of GRADIENT_PAIRS */
#define GRADIENTS_ALIGNED 32u
#define GRADIENTS_UNGUARDED 64u
#define UNFUSED_WORKGROUP_SIZE 64u
#define BLOCK_MASK_WORKGROUP_SIZE 128u
#define MOST_HEADS_OF_CHUNK 64u /* of index_scores_coopmat: in shared memory at a time */
#define PARTS_AT_ONCE 4u        /* of merge_parts: whose loads an invocation has in flight at the same time */

/* WORKGROUP_SIZE: invocations. GROUP: query heads of a KV head. *_DIM_STRIDE: elements between neighbours of a vector.
 * PAGE_SIZE: positions of a page of K and V, a power of two; 0: not paged. BLOCK_Q_LEN, BLOCK_KV_LEN: queries and keys
 * of a block of block_mask. KEY_BLOCK_LEN: keys of an entry of key_indices.
 * CAPTURED_FORMATS: of a variant, a byte for each captured tensor.
 *
 * Of flash: ROWS, query rows of an invocation; COLUMNS, invocations that share a row; KEYS_OF_INVOCATION, keys of a tile
 * that each of them scores: 1, 2 or 4; DIMS_OF_CHUNK, dims of K, and KEYS_OF_CHUNK, keys of V, in shared memory at a time:
 * multiples of 8 and of 4 (with dot products 8); QUERY_STAGED: the rows' queries lie whole in shared memory, and not a chunk
 * at a time.
 *
 * Of merge_parts: COLUMNS, invocations that share a block of the output.
 *
 * Of block_mask: ROWS, queries of each block that a dispatch takes.
 *
 * Of decode, beside some of those: VALUE_IN_KEY: V is the first dims of K.
 *
 * Of coopmat: MATRIX_*, the shape of a product M x K by K x N; SUBGROUP_SIZE; DIM_SUBGROUPS, subgroups that share their
 * query rows, each with a part of the keys and of the output's dims; ROW_MATRICES, of a subgroup along its rows;
 * KEYS_OF_TILE; in shared memory at a time, DIMS_OF_CHUNK of K and KEYS_OF_CHUNK of V, both multiples of 8, one after the
 * other in the same place where TAKES_TURNS is 1; QUERY_IN_REGISTERS, where K is in one chunk or its chunks are loaded
 * sixteen bytes at a time, as many by each invocation.
 *
 * Of coopmat2, beside most of those: MATRIX_SCOPE, of SPIR-V: whether the workgroup or a subgroup holds a matrix together, of
 * ROW_MATRICES along its rows; DIM_SUBGROUPS, of them along its dims; DIMS_OF_CHUNK is all of K's.
 *
 * Of index_scores_coopmat: MATRIX_*, SUBGROUP_SIZE, ROW_MATRICES, of a subgroup along its keys; ROWS, queries of a workgroup.
 *
 * Of the backward pass, beside those of flash: an own tile is ROWS of an invocation, and KEYS_OF_INVOCATION of another kind pass by;
 * KEYS_OF_CHUNK: of those, in shared memory at a time; READS_AHEAD: loads of a tile, and of what sums read of it, are under way
 * together, in more registers; on matrix units KEYS_OF_TILE pass by, and QUERY_IN_REGISTERS: own ones are in
 * registers. GRADIENT_PAIRS: bit 0, that neighbours of d_output share words; 1, of d_query; 2,
 * of d_key; 3, of d_value; GRADIENTS_LARGEST: deltas leave the largest elements of d_output; GRADIENTS_ALIGNED: d_output as _ALIGNED says; GRADIENTS_UNGUARDED: the device is no CPU driver. MASK_ROWS: of attn_mask, of each of its heads.
 * CAPTURED_GRADIENTS: a bit for each captured tensor that has one; CAPTURED_STAGE: what backward_captured does.
 *
 * Of flash_addresses: STEP, keys at a time; *_ROW_BYTES, from position to position; READS_AHEAD; STAGED: K and V at the
 * addresses are f32 copies of some of the keys. */
#define ATTENTION_CONSTANTS(X)                                                                                         \
    X(0, WORKGROUP_SIZE, 32)                                                                                           \
    X(1, HEAD_DIM, 64)                                                                                                 \
    X(2, V_HEAD_DIM, 64)                                                                                               \
    X(3, GROUP, 1)                                                                                                     \
    X(4, KV_HEAD_MAPPING, 0)                                                                                           \
    X(5, FEATURES, 0)                                                                                                  \
    X(6, QUERY_FORMAT, 1)                                                                                              \
    X(7, KEY_FORMAT, 1)                                                                                                \
    X(8, VALUE_FORMAT, 1)                                                                                              \
    X(9, OUTPUT_FORMAT, 1)                                                                                             \
    X(10, MASK_FORMAT, 0)                                                                                              \
    X(11, SCORE_STAGE, 0)                                                                                              \
    X(12, QUERY_DIM_STRIDE, 1)                                                                                         \
    X(13, KEY_DIM_STRIDE, 1)                                                                                           \
    X(14, VALUE_DIM_STRIDE, 1)                                                                                         \
    X(15, OUTPUT_DIM_STRIDE, 1)                                                                                        \
    X(16, STEP, 8)                                                                                                     \
    X(17, KEY_ROW_BYTES, 0)                                                                                            \
    X(18, VALUE_ROW_BYTES, 0)                                                                                          \
    X(19, ROWS, 1)                                                                                                     \
    X(20, PAGE_SIZE, 0)                                                                                                \
    X(21, MATRIX_M, 16)                                                                                                \
    X(22, MATRIX_N, 16)                                                                                                \
    X(23, MATRIX_K, 16)                                                                                                \
    X(24, SUBGROUP_SIZE, 32)                                                                                           \
    X(25, DIM_SUBGROUPS, 1)                                                                                            \
    X(26, KEYS_OF_TILE, 32)                                                                                            \
    X(27, DIMS_OF_CHUNK, 64)                                                                                           \
    X(28, QUERY_IN_REGISTERS, 1)                                                                                       \
    X(29, ROW_MATRICES, 1)                                                                                             \
    X(30, BLOCK_Q_LEN, 1)                                                                                              \
    X(31, BLOCK_KV_LEN, 1)                                                                                             \
    X(32, READS_AHEAD, 0)                                                                                              \
    X(33, STAGED, 0)                                                                                                   \
    X(34, COLUMNS, 8)                                                                                                  \
    X(35, KEYS_OF_INVOCATION, 4)                                                                                       \
    X(36, KEYS_OF_CHUNK, 32)                                                                                           \
    X(37, QUERY_STAGED, 0)                                                                                             \
    X(38, TAKES_TURNS, 0)                                                                                              \
    X(39, VALUE_IN_KEY, 0)                                                                                             \
    X(40, MORE_FEATURES, 0)                                                                                            \
    X(41, KEY_BLOCK_LEN, 1)                                                                                            \
    X(42, CAPTURED_FORMATS, 0)                                                                                         \
    X(43, D_OUTPUT_FORMAT, 0)                                                                                          \
    X(44, D_QUERY_FORMAT, 0)                                                                                           \
    X(45, D_KEY_FORMAT, 0)                                                                                             \
    X(46, D_VALUE_FORMAT, 0)                                                                                           \
    X(47, D_ATTN_MASK_FORMAT, 0)                                                                                       \
    X(48, GRADIENT_PAIRS, 0)                                                                                           \
    X(49, MASK_ROWS, 0)                                                                                                \
    X(50, CAPTURED_GRADIENTS, 0)                                                                                       \
    X(51, CAPTURED_STAGE, 0)                                                                                           \
    X(52, MATRIX_SCOPE, 3)

/* What holds for a whole plan: a uniform block at binding ATTENTION_BINDINGS, written when the plan is made, since a
 * device need not have more than 128 bytes of push constants. Strides are in elements: batch, head, position. */
struct AttentionParameters {
#define VKATTN_STRIDES(binding, name, NAME, feature, Layout, type, Trial) uvec4 name##_strides;
    STRIDED_ATTENTION_TENSORS(VKATTN_STRIDES)
    uvec4 addressed_strides; /* through addresses: batch and head of K, of V, in bytes */
    uint key_padding_stride; /* batch */
    uint q_len;
    uint kv_len;
    uint mask_len;
    uint kv_heads;
    uint q_total;     /* rows of packed queries */
    uint kv_total;    /* rows of packed keys */
    uint pool_pages;  /* of paged K and V */
    uint table_pages; /* of a sequence in the block table */
    int offset;       /* of the causal line, the window and ALiBi; past_lengths takes its place */
    int window_left;
    int window_right;
    float scale_log2;   /* scale * log2(e): scores are kept in units of log 2, for exp2 */
    float softcap_log2; /* softcap * log2(e) */
    uint first_batch;   /* dropout and masks in turn count from them: the call may be a part of a larger one */
    uint first_query_head;
    uint dropout_seed_low;
    uint dropout_seed_high;
    uint dropout_threshold; /* a weight is dropped whose random word is below */
    float dropout_scale;    /* 1 / (1 - probability) */
    uint fewest_queries;    /* packed ones that a sequence must have to be attended */
    uint most_queries;
    uint parts;             /* of each row's keys; read with FEATURE_PARTS */
    uint key_indices_len;   /* entries of a list */
    uint sequences;         /* of packed queries; block_mask: that each of its entries stands for */
    uint row_tiles;         /* along the first axis of the first step's grid, of a part */
    uint tiles_of_dispatch; /* of them, where dispatches share the grid: row_tiles is a multiple of it */
    uint forced_first;      /* index: blocks that are listed whatever their scores */
    uint forced_last;
    uint mask_entries; /* read with MORE_FEATURE_MASK_IN_TURN */
    uint mask_heads;
    uint tree_words; /* of a row of tree_mask */
    ATTENTION_NUMBERS(VKATTN_UNIFORM)
#if defined(HAS_CAPTURED_TENSORS) || defined(HAS_GRADIENTS)
    uvec4 captured_elements; /* of each captured tensor */
    vec4 captured_numbers;
#endif
#ifdef HAS_GRADIENTS
#define VKATTN_GRADIENT_STRIDES(binding, name, NAME) uvec4 name##_strides;
    ATTENTION_GRADIENTS(VKATTN_GRADIENT_STRIDES)
#endif
};

/* What changes from dispatch to dispatch. */
struct AttentionPush {
    uint first_group[3];
    uint bases[ATTENTION_BINDINGS / 4];
    uint first_key; /* flash: this dispatch attends keys first_key .. last_key - 1 */
    uint
        last_key; /* backward: what passes by a tile of keys, rows first_key .. last_key - 1; a tile of attn_mask, so many tiles;
                     backward_captured, but of tiles: so many words or elements, of sums from first_key on */
    /* through addresses: where keys addressed_begin .. addressed_end - 1 lie, low word first */
    uint key_address[2];
    uint value_address[2];
    uint addressed_begin;
    uint addressed_end;
    uint first_row; /* index: of the dispatch's queries; block_mask: of those of each block */
    uint end_row;   /* index on matrix units: behind its last query */
};

#ifdef __cplusplus
VKATTN_INTERFACE(attention, Attention, ATTENTION_CONSTANTS)
static_assert(sizeof(AttentionParameters) <= 512);
} // namespace vkattn::gpu
#endif

#endif
