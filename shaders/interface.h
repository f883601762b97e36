/* What the shaders and the host agree on, read by both: bindings, specialisation constants, push constants, formats.
 * A constant list is an X-macro of (id, NAME, default): in GLSL it declares the constants, in C++ a struct of them,
 * which is also the key of the pipeline. */
#ifndef VKATTN_SHADERS_INTERFACE_H
#define VKATTN_SHADERS_INTERFACE_H

#ifdef __cplusplus
#include <array>
#include <cstdint>
namespace vkattn::gpu {
using uint = std::uint32_t;
struct alignas(16) uvec4 : std::array<uint, 4> {}; /* as in GLSL: such members stand first */
#define VKATTN_CONSTANT(id, NAME, default_value) uint NAME = default_value;
#else
#define VKATTN_CONSTANT(id, NAME, default_value) layout(constant_id = id) const uint NAME = default_value;
#endif

/* storage formats of tensor elements */
#define FORMAT_NONE 0u
#define FORMAT_F32 1u
#define FORMAT_F16 2u
#define FORMAT_BF16 3u
#define FORMAT_BOOL 4u
#define FORMAT_Q8_0 6u
#define FORMAT_Q4_0 7u

/* of every pipeline, beside those of its list: the device's trait of that name */
#define CONSTANT_UNPACKS_HALVES 63

/* ggml's quantised blocks of 32 values: an f16 scale d, then 32 signed bytes q (value d * q), or 16 bytes of which the
 * low halves are values 0 .. 15 and the high halves values 16 .. 31 (value d * (q - 8)). */
#define QUANTISED_BLOCK 32u
#define Q8_0_BYTES 34u
#define Q4_0_BYTES 18u

/* ------------------------------------------------------------------ attention: flash and the unfused three */

#define BINDING_QUERY 0
#define BINDING_KEY 1
#define BINDING_VALUE 2
#define BINDING_OUTPUT 3
#define BINDING_LOG_SUM_EXP 4
#define BINDING_ATTN_MASK 5
#define BINDING_KEY_PADDING_MASK 6
#define BINDING_KEY_LENGTHS 7
#define BINDING_PAST_LENGTHS 8
#define BINDING_ALIBI_SLOPES 9
#define BINDING_SINKS 10
#define BINDING_SCORES 11 /* unfused: scores, then weights; flash: the state of rows between dispatches */
#define BINDING_ATTN_WEIGHTS 12
#define BINDING_QK_MATMUL_OUTPUT 13
#define BINDING_CU_SEQLENS_Q 14
#define BINDING_CU_SEQLENS_K 15
#define BINDING_BLOCK_TABLE 16
#define BINDING_BLOCK_MASK 17
#define ATTENTION_BINDINGS 18

/* FEATURES bits */
#define FEATURE_CAUSAL 1u
#define FEATURE_WINDOW 2u
#define FEATURE_KEY_LENGTHS 4u
#define FEATURE_PAST_LENGTHS 8u
#define FEATURE_KEY_PADDING 16u
#define FEATURE_ALIBI 32u
#define FEATURE_SOFTCAP 64u
#define FEATURE_SINKS 128u
#define FEATURE_LOG_SUM_EXP 256u
#define FEATURE_ATTN_WEIGHTS 512u
#define FEATURE_QK_MATMUL_OUTPUT 1024u
/* element offsets of every vector of the tensor are even: two 16-bit values share one word */
#define FEATURE_QUERY_PAIRS 2048u
#define FEATURE_KEY_PAIRS 4096u
#define FEATURE_VALUE_PAIRS 8192u
#define FEATURE_OUTPUT_PAIRS 16384u
#define FEATURE_SHORT_MASK 32768u /* the mask ends before kv_len */
#define FEATURE_KEYS_TO_LAST_QUERY 65536u
#define FEATURE_CU_SEQLENS_Q 131072u
#define FEATURE_CU_SEQLENS_K 262144u
#define FEATURE_DROPOUT 1048576u
#define FEATURE_SPLIT_KEYS 2097152u  /* several dispatches in turn, each over a stretch of keys */
#define FEATURE_BOTTOM_RIGHT 524288u /* the offset is what a sequence's lengths say: keys less queries */
/* every vector of the tensor is of whole eights, none quantised, without gaps, and begins at a multiple of eight
 * elements */
#define FEATURE_QUERY_ALIGNED 33554432u
#define FEATURE_KEY_ALIGNED 4194304u
#define FEATURE_VALUE_ALIGNED 8388608u
#define FEATURE_BLOCK_MASK 16777216u

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

#define BLOCKS_OF_FLASH_ROW_TRIP 4u
#define KEYS_OF_UNFUSED_TRIP 4u
#define UNFUSED_WORKGROUP_SIZE 64u
#define COLUMNS_OF_FLASH_TILE 8u /* invocations that share a row of a tile in shared memory */
#define KEYS_OF_FLASH_TILE 32u

/* WORKGROUP_SIZE: invocations (flash: query rows of a tile); GROUP: query heads of a KV head; *_DIM_STRIDE: elements
 * between neighbours of a vector. PARTS: what each row's keys are split into, to be joined by merge_parts. Of the
 * kernels that read K and V through addresses: STEP, keys at a time; *_ROW_BYTES, from position to position. ROWS:
 * query rows of an invocation. PAGE_SIZE: positions of a page of K and V, a power of two; 0: not paged. BLOCK_Q_LEN,
 * BLOCK_KV_LEN: queries and keys of a block of block_mask.
 * Of coopmat: MATRIX_*, the shape of a product M x K by K x N; SUBGROUP_SIZE; DIM_SUBGROUPS, subgroups that share their
 * query rows, each with a part of the keys and of the output's dims; KEYS_OF_TILE; DIMS_OF_CHUNK, dims of K and V in
 * shared memory at a time, a multiple of 8; QUERY_IN_REGISTERS; VALUE_IN_KEY: V is the first dims of K. */
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
    X(16, PARTS, 1)                                                                                                    \
    X(17, STEP, 8)                                                                                                     \
    X(18, KEY_ROW_BYTES, 0)                                                                                            \
    X(19, VALUE_ROW_BYTES, 0)                                                                                          \
    X(20, ROWS, 1)                                                                                                     \
    X(21, PAGE_SIZE, 0)                                                                                                \
    X(22, MATRIX_M, 16)                                                                                                \
    X(23, MATRIX_N, 16)                                                                                                \
    X(24, MATRIX_K, 16)                                                                                                \
    X(25, SUBGROUP_SIZE, 32)                                                                                           \
    X(26, DIM_SUBGROUPS, 1)                                                                                            \
    X(27, KEYS_OF_TILE, 32)                                                                                            \
    X(28, DIMS_OF_CHUNK, 64)                                                                                           \
    X(29, QUERY_IN_REGISTERS, 1)                                                                                       \
    X(30, VALUE_IN_KEY, 0)                                                                                             \
    X(31, BLOCK_Q_LEN, 1)                                                                                              \
    X(32, BLOCK_KV_LEN, 1)                                                                                             \
    X(33, READS_AHEAD, 0)                                                                                              \
    X(34, STAGED, 0)

/* What holds for a whole plan: a uniform block at binding ATTENTION_BINDINGS, written when the plan is made, since a
 * device need not have more than 128 bytes of push constants. Strides are in elements: batch, head, position. */
struct AttentionParameters {
    uvec4 query_strides;
    uvec4 key_strides;
    uvec4 value_strides;
    uvec4 output_strides;
    uvec4 mask_strides;
    uvec4 block_strides;     /* of block_mask: batch, head, block of queries */
    uvec4 addressed_strides; /* through addresses: batch and head of K, of V, in bytes */
    uint key_padding_stride; /* batch */
    uint q_len;
    uint kv_len;
    uint mask_len;
    uint kv_heads;
    uint
        q_total; /* rows of packed queries, of packed keys, pages of the pool, pages of a sequence in the block table */
    uint kv_total;
    uint pool_pages;
    uint table_pages;
    int offset; /* of the causal line, the window and ALiBi; past_lengths takes its place */
    int window_left;
    int window_right;
    float scale_log2;   /* scale * log2(e): scores are kept in units of log 2, for exp2 */
    float softcap_log2; /* softcap * log2(e) */
    uint first_batch;   /* dropout counts from them: the call may be a part of a larger one */
    uint first_query_head;
    uint dropout_seed_low;
    uint dropout_seed_high;
    uint dropout_threshold; /* a weight is dropped whose random word is below */
    float dropout_scale;    /* 1 / (1 - probability) */
    uint fewest_queries;    /* packed ones that a sequence must have to be attended */
    uint most_queries;
};

/* What changes from dispatch to dispatch. bases: see base_bytes in lib/bases.glsl. */
struct AttentionPush {
    uint bases[5];
    uint first_key; /* flash: this dispatch attends keys first_key .. last_key - 1 */
    uint last_key;
    uint first_group; /* flash.comp: of the grid's first axis, where several dispatches share it; else 0 */
    /* through addresses: where keys addressed_begin .. addressed_end - 1 lie, low word first */
    uint key_address[2];
    uint value_address[2];
    uint addressed_begin;
    uint addressed_end;
};

/* ------------------------------------------------------------------ linear */

#define BINDING_LINEAR_INPUT 0
#define BINDING_LINEAR_WEIGHT 1
#define BINDING_LINEAR_BIAS 2
#define BINDING_LINEAR_OUTPUT 3
#define BINDING_LINEAR_RESIDUAL 4
#define BINDING_LINEAR_MULTIPLIER 5
#define LINEAR_BINDINGS 6

#define LINEAR_TILE 32 /* rows and outputs of a workgroup's tile */
#define LINEAR_WORKGROUP_SIZE 64
#define LINEAR_VECTOR_OUTPUTS 4    /* of a workgroup of linear_vector */
#define LINEAR_VECTOR_ROWS 4       /* the most it takes */
#define LINEAR_ADDRESSES_OUTPUTS 4 /* of an invocation of linear_addresses */

#define ACTIVATION_NONE 0u
#define ACTIVATION_RELU 1u
#define ACTIVATION_GELU 2u
#define ACTIVATION_SILU 3u
#define ACTIVATION_LEAKY_RELU 4u

#define LINEAR_MATRIX_STEP 32 /* input features that linear_coopmat has in shared memory */

/* from WORKGROUP_SIZE on, of linear_coopmat: matrices of MATRIX_M x MATRIX_K by MATRIX_K x MATRIX_N. ALIGNED: which of
 * the factors have rows of whole eights without gaps between elements, that begin at multiples of 16 bytes. ROWS: of an
 * invocation of linear_addresses, of all linear_vector; BLOCKS, of linear_addresses: of four features at a time */
#define ALIGNED_INPUT 1u
#define ALIGNED_WEIGHT 2u
#define LINEAR_CONSTANTS(X)                                                                                            \
    X(0, INPUT_FORMAT, 1)                                                                                              \
    X(1, WEIGHT_FORMAT, 1)                                                                                             \
    X(2, BIAS_FORMAT, 0)                                                                                               \
    X(3, OUTPUT_FORMAT, 1)                                                                                             \
    X(4, RESIDUAL_FORMAT, 0)                                                                                           \
    X(5, ACTIVATION, 0)                                                                                                \
    X(6, OUTPUT_PAIRS, 0)                                                                                              \
    X(7, WORKGROUP_SIZE, 64)                                                                                           \
    X(8, SUBGROUP_SIZE, 32)                                                                                            \
    X(9, ROW_SUBGROUPS, 1)                                                                                             \
    X(10, TILES, 1)                                                                                                    \
    X(11, MATRIX_M, 16)                                                                                                \
    X(12, MATRIX_N, 16)                                                                                                \
    X(13, MATRIX_K, 16)                                                                                                \
    X(14, ALIGNED, 0)                                                                                                  \
    X(15, MULTIPLIER_FORMAT, 0)                                                                                        \
    X(16, ROWS, 1)                                                                                                     \
    X(17, BLOCKS, 1)

/* Rows are (batch, position). Output feature o of a row lies at head o / head_dim, element o % head_dim. A group is an
 * independent product with a matrix of its own: the heads of a latent up-projection; plain linears have one. */
struct LinearPush {
    uint bases[4];
    uint rows;
    uint positions; /* rows of one batch entry */
    uint in_features;
    uint out_features;
    uint head_dim;
    uint input_strides[3];    /* batch, position, group */
    uint weight_strides[3];   /* output, input, group */
    uint bias_stride;         /* group */
    uint output_strides[5];   /* batch, position, head, element, group */
    uint residual_strides[2]; /* batch, position */
    uint multiplier_strides[2];
    uint input_address[2]; /* of linear_addresses, low word first */
    uint weight_address[2];
};

/* ------------------------------------------------------------------ norm */

#define BINDING_NORM_INPUT 0
#define BINDING_NORM_WEIGHT 1
#define BINDING_NORM_BIAS 2
#define BINDING_NORM_OUTPUT 3
#define NORM_BINDINGS 4

#define NORM_WORKGROUP_SIZE 64 /* a power of two */

#define NORM_CONSTANTS(X)                                                                                              \
    X(0, SUBTRACTS_MEAN, 0)                                                                                            \
    X(1, INPUT_FORMAT, 1)                                                                                              \
    X(2, WEIGHT_FORMAT, 1)                                                                                             \
    X(3, BIAS_FORMAT, 0)                                                                                               \
    X(4, OUTPUT_FORMAT, 1)                                                                                             \
    X(5, OUTPUT_PAIRS, 0)

struct NormPush {
    uint bases[4];
    uint features;
    uint input_strides[2]; /* batch, position */
    uint output_strides[2];
    float epsilon;
};

/* ------------------------------------------------------------------ embedding */

#define BINDING_EMBEDDING_TOKENS 0
#define BINDING_EMBEDDING_WEIGHT 1
#define BINDING_EMBEDDING_OUTPUT 2
#define EMBEDDING_BINDINGS 3

#define EMBEDDING_WORKGROUP_SIZE 64

#define EMBEDDING_CONSTANTS(X)                                                                                         \
    X(0, WEIGHT_FORMAT, 1)                                                                                             \
    X(1, OUTPUT_FORMAT, 1)                                                                                             \
    X(2, OUTPUT_PAIRS, 0)

struct EmbeddingPush {
    uint bases[4];
    uint rows; /* of weight */
    uint features;
    uint token_strides[2]; /* batch, position */
    uint row_stride;
    uint output_strides[2];
};

/* ------------------------------------------------------------------ rope */

#define BINDING_ROPE_INPUT 0
#define BINDING_ROPE_OUTPUT 1
#define BINDING_ROPE_FREQUENCIES 2
#define BINDING_ROPE_PAST_LENGTHS 3
#define ROPE_BINDINGS 4

#define ELEMENTWISE_WORKGROUP_SIZE 64

#define ROPE_CONSTANTS(X)                                                                                              \
    X(0, INTERLEAVED, 0)                                                                                               \
    X(1, HAS_PAST_LENGTHS, 0)

struct RopePush {
    uint bases[4];
    uint input_strides[3]; /* batch, head, position */
    uint output_strides[3];
    uint positions;
    uint pairs;  /* of a vector */
    uint offset; /* position of the first token; past_lengths takes its place */
};

/* ------------------------------------------------------------------ kv_append */

#define BINDING_APPEND_SOURCE 0
#define BINDING_APPEND_CACHE 1
#define BINDING_APPEND_PAST_LENGTHS 2
#define BINDING_APPEND_CU_SEQLENS 3
#define BINDING_APPEND_BLOCK_TABLE 4
#define BINDING_APPEND_LENGTHS 5
#define APPEND_BINDINGS 6

/* cu_seqlens: rows behind a sequence's end are left out, or read as if they were its own (which costs nothing, and
 * leaves no gaps) */
#define PACKED_NONE 0u
#define PACKED_SEQUENCES 1u
#define PACKED_AND_BEYOND 2u

/* which of the two has its rows in pages */
#define PAGED_NONE 0u
#define PAGED_SOURCE 1u
#define PAGED_CACHE 2u

/* IN_BLOCKS: four neighbours at a time, from whole words to whole words */
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
    X(9, HAS_LENGTHS, 0)

struct AppendPush {
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
    uint beyond;      /* rows beyond a sequence's length that are copied too */
};

/* ------------------------------------------------------------------ merge */

#define BINDING_MERGE_PARTIAL_OUTPUT 0
#define BINDING_MERGE_PARTIAL_LOG_SUM_EXP 1
#define BINDING_MERGE_OUTPUT 2
#define BINDING_MERGE_LOG_SUM_EXP 3
#define MERGE_BINDINGS 4

#define MERGE_WORKGROUP_SIZE 32

#define MERGE_CONSTANTS(X)                                                                                             \
    X(0, PARTIAL_FORMAT, 1)                                                                                            \
    X(1, OUTPUT_FORMAT, 1)                                                                                             \
    X(2, OUTPUT_PAIRS, 0)                                                                                              \
    X(3, ACCUMULATES, 0)                                                                                               \
    X(4, HAS_LOG_SUM_EXP, 0)

struct MergePush {
    uint bases[4];
    uint partial_strides[4];      /* batch, head, position, element */
    uint partial_sums_strides[4]; /* batch, head, position, part */
    uint output_strides[4];
    uint part_stride;
    uint parts;
    uint dims;
};

/* ------------------------------------------------------------------ advance_lengths */

#define BINDING_ADVANCE_LENGTHS 0
#define ADVANCE_BINDINGS 1

struct AdvancePush {
    uint bases[4];
    uint sequences;
    uint tokens;
    uint capacity;
};

#ifdef __cplusplus
struct AttentionConstants {
    ATTENTION_CONSTANTS(VKATTN_CONSTANT)
};
struct LinearConstants {
    LINEAR_CONSTANTS(VKATTN_CONSTANT)
};
struct EmbeddingConstants {
    EMBEDDING_CONSTANTS(VKATTN_CONSTANT)
};
struct NormConstants {
    NORM_CONSTANTS(VKATTN_CONSTANT)
};
struct RopeConstants {
    ROPE_CONSTANTS(VKATTN_CONSTANT)
};
struct AppendConstants {
    APPEND_CONSTANTS(VKATTN_CONSTANT)
};
struct MergeConstants {
    MERGE_CONSTANTS(VKATTN_CONSTANT)
};
struct AdvanceConstants {
    uint UNUSED = 0; /* a pipeline's key is not empty */
};
static_assert(sizeof(AttentionParameters) == 208);
static_assert(sizeof(AttentionPush) <= 128);
static_assert(sizeof(LinearPush) <= 128);
static_assert(sizeof(EmbeddingPush) <= 128);
static_assert(sizeof(NormPush) <= 128);
static_assert(sizeof(RopePush) <= 128);
static_assert(sizeof(AppendPush) <= 128);
static_assert(sizeof(MergePush) <= 128);
} // namespace vkattn::gpu
#endif

#endif
