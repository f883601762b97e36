/* The operator attention, and its neighbours: appending to a cache, and merging partial results. */
#ifndef VKATTN_ATTENTION_H
#define VKATTN_ATTENTION_H

#include <vkattn/plans.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ attention */

/* Masks that are no tensors: bits, which combine. */
typedef enum vkattn_mask_flags {
    VKATTN_MASK_NONE = 0,
    VKATTN_MASK_CAUSAL = 1, /* key j is visible to query i when j <= i + offset */
    VKATTN_MASK_WINDOW = 2, /* i + offset - window_left <= j <= i + offset + window_right */
    /* j < offset + q_len: the rest of a cache of fixed capacity is hidden */
    VKATTN_MASK_KEYS_TO_LAST_QUERY = 4,
    VKATTN_MASK_TIMES_SLOPES = 8, /* alibi_slopes multiply attn_mask, F32 or F16, and not distances: ggml's ALiBi */
    VKATTN_MASK_FLAGS_MAX_ENUM = 0x7fffffff
} vkattn_mask_flags;

/* Where the diagonal lies when there is no past: offset 0, or the sequence's own keys less its queries, which are
 * key_lengths[b] - Lq where key_lengths is given, in dense K and V as well, else Lk - Lq. Negative: the first queries see
 * nothing. docs/masks.md says which libraries mean which. */
typedef enum vkattn_causal_alignment {
    VKATTN_CAUSAL_TOP_LEFT = 0,     /* PyTorch; ONNX without nonpad_kv_seqlen */
    VKATTN_CAUSAL_BOTTOM_RIGHT = 1, /* FlashAttention; ONNX with nonpad_kv_seqlen */
    VKATTN_CAUSAL_ALIGNMENT_MAX_ENUM = 0x7fffffff
} vkattn_causal_alignment;

/* Which KV head query head h reads: h / (q_heads / kv_heads), or h % kv_heads. */
typedef enum vkattn_kv_head_mapping {
    VKATTN_KV_HEADS_GROUPED = 0,
    VKATTN_KV_HEADS_MODULO = 1,
    VKATTN_KV_HEAD_MAPPING_MAX_ENUM = 0x7fffffff
} vkattn_kv_head_mapping;

/* At which stage qk_matmul_output is taken (ONNX Attention, opset 25). */
typedef enum vkattn_score_stage {
    VKATTN_SCORES_SCALED = 0,  /* scale * Q K^T */
    VKATTN_SCORES_CAPPED = 1,  /* after softcap */
    VKATTN_SCORES_MASKED = 2,  /* after bias and masks; -inf where hidden */
    VKATTN_SCORES_WEIGHTS = 3, /* after softmax */
    VKATTN_SCORE_STAGE_MAX_ENUM = 0x7fffffff
} vkattn_score_stage;

/* What a block mask says of a block of queries and keys. */
typedef enum vkattn_block_state {
    VKATTN_BLOCK_HIDDEN = 0,  /* no query of it sees a key of it: the block is not visited */
    VKATTN_BLOCK_PARTIAL = 1, /* attn_mask and mask_mod (variants.h) say which */
    VKATTN_BLOCK_FULL = 2,    /* they would hide nothing and add nothing, and are not asked */
    VKATTN_BLOCK_STATE_MAX_ENUM = 0x7fffffff
} vkattn_block_state;

/* Functions of yours in every kernel: variants.h. */
typedef struct vkattn_variant_opaque *vkattn_variant;

#define VKATTN_CAPTURED_TENSORS 4 /* that the functions of a variant read */
#define VKATTN_CAPTURED_NUMBERS 4 /* that they read beside the tensors */

/* How the rows of K or V are stored. HADAMARD: rows of a head are multiplied by the orthonormal Walsh-Hadamard matrix of the
 * largest power of two that divides the head size, in Sylvester's order, in blocks of as many elements. That spreads the few
 * large elements of a row over all of a block, and what quantised types round away of it is less (QuaRot, Ashkboos et al.,
 * 2024, section 3). Scores and outputs are what they are without it, but for rounding. */
typedef enum vkattn_rotation {
    VKATTN_ROTATION_NONE = 0,
    VKATTN_ROTATION_HADAMARD = 1,
    VKATTN_ROTATION_MAX_ENUM = 0x7fffffff
} vkattn_rotation;

/* One attention problem:
 *
 *     scores  = scale * Q K^T;  softcap;  + ALiBi and additive mask;  -inf where hidden
 *     weights = softmax(scores), with exp(sink) in the denominator if sinks are given
 *     output  = weights V;      lse = log(sum(exp(scores)))
 *
 * Every tensor but query, key and output may be absent. Sizes: B batch, Hq and Hkv query and KV heads, Lq and Lk query
 * and key length, D and Dv head sizes, each from 1 to 576. Hq % Hkv == 0. B, Hq, Hkv, Lq and Lk may be 0: without keys
 * every query sees no key; without queries nothing is written, and a plan has no dispatches. A role whose tensor has no
 * elements may be bound or left out.
 *
 * A query that sees no key has output 0, weights 0 and log_sum_exp -inf. Keys and values that no query sees may hold
 * anything, NaN included: results keep the bounds of their types, though not always their bits. Kernels but unfused
 * divide by the sum of the weights at the end: where |value| times the number of visible keys reaches 3.4e38, the most
 * that f32 holds, their output may be infinite or NaN.
 *
 * Sequences of unequal length are said by key_lengths, past_lengths, cu_seqlens_q, cu_seqlens_k and block_table, in any
 * combination but the last two; B is then the number of sequences. Kernel unfused takes none of cu_seqlens_q,
 * cu_seqlens_k and block_table. Lengths and page numbers are read when the commands run, so a recorded command buffer
 * serves any lengths up to the maxima. Whatever they say, nothing outside the tensors is read or written: lengths are
 * held to 0 .. Lk, cu_seqlens to 0 .. total, and what ends before it begins is empty. */
typedef struct vkattn_attention_desc {
    VKATTN_STRUCT_SIZE(vkattn_attention_desc);
    uint32_t mask_flags; /* vkattn_mask_flags */
    /* [B,Hq,Lq,D], required: F32, F16 or BF16, any strides ([B,L,H,D] storage is a choice of strides). With
     * cu_seqlens_q: [1,Hq,total,D]. */
    vkattn_tensor query;
    /* [B,Hkv,Lk,D], required: F32, F16, BF16 or quantised blocks (Q8_0 ...), any strides. With cu_seqlens_k:
     * [1,Hkv,total,D]. With block_table: [pages,Hkv,P,D], P a power of two and at least 8. */
    vkattn_tensor key;
    /* [B,Hkv,Lk,Dv], or as key with cu_seqlens_k and block_table: the types of key, any strides.
     * Absent: V is the first Dv (that of output) elements of each row of K, as in DeepSeek's absorbed MLA, and is read
     * once for both where that helps. */
    vkattn_tensor value;
    /* [B,Hq,Lq,Dv], required: F32, F16 or BF16, strides by which no elements overlap. With cu_seqlens_q:
     * [1,Hq,total,Dv]. */
    vkattn_tensor output;
    /* [B,Hq,Lq] F32, contiguous: natural log, sink included, -inf for a query that sees no key (sink or not). With
     * cu_seqlens_q: [Hq,total]. */
    vkattn_tensor log_sum_exp;
    /* BOOL (non-zero = attend), F32 or F16 (added to the scores): [Lq|1,Lm], [B|1,Lq|1,Lm] (all heads) or
     * [B|1,Hq|1,Lq|1,Lm] with Lm <= Lk; the last stride must be 1. Keys from Lm on are hidden. An additive value of
     * -inf, or below -6e37, hides the key. In place of B and Hq any divisor: entry b reads that of b % shape[0], head h that
     * of h % shape[1], as in ggml. */
    vkattn_tensor attn_mask;
    /* [B,Lk] BOOL, non-zero = ignore the key; the last stride must be 1. */
    vkattn_tensor key_padding_mask;
    /* [B] I32, contiguous: keys j >= key_lengths[b] are hidden; values are clamped to 0..Lk. */
    vkattn_tensor key_lengths;
    /* [B] I32, contiguous: takes the place of past_len for each sequence; values are clamped to 0..2^29. */
    vkattn_tensor past_lengths;
    /* [Hq] F32, contiguous: adds -slope * |i + offset - j| to the score of query i and key j; with VKATTN_MASK_TIMES_SLOPES
     * slope * attn_mask in place of that and of attn_mask. */
    vkattn_tensor alibi_slopes;
    /* [Hq] F32, contiguous: one logit per query head. */
    vkattn_tensor sinks;
    /* [B,Hq,Lq,Lk] F32, contiguous: the weights, after dropout. Kernel unfused alone. */
    vkattn_tensor attn_weights;
    /* [B,Hq,Lq,Lk] F32, contiguous: the scores at score_stage. Kernel unfused alone. */
    vkattn_tensor qk_matmul_output;
    /* [B+1] I32: queries lie packed, without padding, those of sequence b in rows cu_seqlens_q[b] to
     * cu_seqlens_q[b+1] - 1 of total. Lq is max_seqlen_q. Masks count positions from the sequence's own start. A query
     * that is left without keys has zeros; packed queries of no sequence are not written. */
    vkattn_tensor cu_seqlens_q;
    /* [B+1] I32: the same of keys and values. Lk is max_seqlen_k. Not with block_table. */
    vkattn_tensor cu_seqlens_k;
    /* [B,N] I32: K and V lie in pages of P positions: positions n*P to n*P + P - 1 of sequence b lie in page
     * block_table[b][n]. Keys on a page outside the pool, -1 for one, are hidden. Lk is N * P; give key_lengths, or
     * past_lengths with VKATTN_MASK_KEYS_TO_LAST_QUERY, since pages after them are not read. Not with cu_seqlens_k. */
    vkattn_tensor block_table;
    /* I32 of vkattn_block_state (any other number counts as PARTIAL), one for every block of block_q_len queries by
     * block_kv_len keys: [Q|1,K], [B|1,Q|1,K] or [B|1,Hq|1,Q|1,K] with Q = ceil(Lq / block_q_len) and
     * K = ceil(Lk / block_kv_len); the last stride must be 1. Hidden blocks cost nothing, full ones are not masked:
     * block sparsity as in FlexAttention (Dong et al., 2024), whose lists of partial and of full blocks it says as a map.
     * The other masks hold as ever. */
    vkattn_tensor block_mask;
    /* At least 1 with block_mask, else not read. Multiples of 64 suit every kernel's tiles. */
    uint32_t block_q_len;
    uint32_t block_kv_len; /* keys of a block, as block_q_len */
    /* The longest sequence of cu_seqlens_q, not read without it; 0: total. What is longer is cut off; cost follows total. */
    uint32_t max_seqlen_q;
    uint32_t max_seqlen_k;          /* the longest of cu_seqlens_k, as max_seqlen_q */
    vkattn_score_stage score_stage; /* of qk_matmul_output */
    vkattn_optional_float scale;    /* finite; left out: 1/sqrt(D) */
    float softcap;                  /* finite, at least 0; 0: none */
    /* 0 <= dropout_p < 1: each weight is zeroed with this probability, the others are multiplied by 1/(1-p).
     * log_sum_exp knows nothing of it. Which ones, Philox4x32-10 says: word j%4 of counter (j/4, i, h, b) under key
     * dropout_seed (low word first), for query i, key j, query head h, batch entry or sequence b; a weight is dropped if
     * its word is below p * 2^32. Every kernel drops the same. */
    float dropout_p;
    /* 1: the bits of a sequence's results do not depend on the other sequences of the call, on how many there are, or on
     * how long they or the buffers are. Kernel flash without splits, possibly slower. */
    uint32_t batch_invariant;
    uint64_t dropout_seed; /* of dropout_p */
    /* The offset of masks and ALiBi is past_lengths[b] if given, else past_len if it is, else by causal_alignment. */
    vkattn_causal_alignment causal_alignment;
    /* At least -1; -1: unbounded. Read only with VKATTN_MASK_WINDOW. */
    int32_t window_left;
    int32_t window_right;          /* the same */
    vkattn_optional_uint past_len; /* at most 2^29 */
    vkattn_kv_head_mapping kv_head_mapping;
    vkattn_kernel kernel; /* VKATTN_KERNEL_AUTO, or the kernel requested: an error if it cannot serve */
    /* Of F32 queries: F16 or BF16 allows that Q is rounded to it on its way to matrix units, where K and V are of that type, or
     * quantised beside F16. Q must then be finite in it. NONE: Q is multiplied as it is, and no matrix unit takes it. */
    vkattn_type query_rounding;
    /* How K and V are stored. Where K is rotated, Q is before the scores, in the workspace and in its type; where V is, the output
     * waits in f32 in the workspace, and is rotated back. V in K's rows is rotated as they are, and its size must then be a
     * multiple of their block. Not V with an output_mod. */
    vkattn_rotation key_rotation;
    vkattn_rotation value_rotation; /* as key_rotation */
    /* Scales of K of type F8_E4M3 or F8_E5M2, whose blocks have none of their own: an element is its scale times what its byte
     * stands for (OCP 8-bit Floating Point Specification, 2023). F32, any strides, key's shape with 1 in place of D, and 1
     * wherever a scale is shared: [1,1,1,1] is one of the tensor, [1,Hkv,1,1] one of each KV head, [B,Hkv,Lk,1] (of packed rows
     * [1,Hkv,total,1], of pages [pages,Hkv,P,1]) one of each row, which is a token and head. Absent: 1. Read when the commands
     * run. */
    vkattn_tensor key_scales;
    vkattn_tensor value_scales; /* the same of value. Where V is in K's rows, absent: K's are V's */
    /* [B,Hkv|1,Lq,N] I32, last stride 1; with cu_seqlens_q [1,Hkv|1,total,N]: the keys that each query may see, as a list: sparse
     * attention whose cost follows the list's length and not Lk. Entry n names the block of keys n * key_block_len to
     * n * key_block_len + key_block_len - 1, counted from the sequence's own start. Entries below 0 or beyond the sequence name
     * nothing: -1 pads a list. An entry listed twice counts twice. A query sees a key that an entry names and no mask hides. The
     * order of a list does not change a bit of the results. N * key_block_len is at most 2^29. The workspace holds the lists
     * sorted, twice where N is above 2048. Not with attn_weights and qk_matmul_output. Read when the commands run. */
    vkattn_tensor key_indices;
    uint32_t key_block_len; /* keys of a block of key_indices; 0: 1 */
    vkattn_variant variant; /* of the same context, with functions of yours: variants.h. NULL: none */
    /* Of variant: F32, F16, BF16 or I32 of any shape, contiguous; absent: its functions read 0. Bound as VKATTN_ROLE_CAPTURED_0 and
     * the following. */
    vkattn_tensor captured_0;
    vkattn_tensor captured_1;
    vkattn_tensor captured_2;
    vkattn_tensor captured_3;
    /* Of variant, too: a part of the plan, and not of what is compiled. */
    float captured_numbers[VKATTN_CAPTURED_NUMBERS];
    /* Bytes that the offset of each region is a multiple of when vkattn_attention_plan's plan is recorded: 4, 8 or 16; 0: 16. Below 16
     * code that reads sixteen bytes at a time is not taken, where that may be slower. Not below 16 where K or V is rotated.
     * vkattn_tensor.offset, which is a part of the plan, may be any element. */
    uint32_t region_alignment;
    /* [B,Lq,ceil(Lq/32)] I32, contiguous; with cu_seqlens_q [total,ceil(max_seqlen_q/32)]: of the queries' own keys, query i sees key
     * j where bit j%32 of word j/32 of its row is set, whatever the head. They are Lq keys (of packed queries as many as the sequence
     * has): from past_len or past_lengths[b] on where a past is given, else the sequence's last ones. Earlier keys are visible, later
     * ones hidden. For a draft of tokens in a tree, whose row sets the bits of a token's ancestors and of itself. Lk is at least Lq,
     * or 0. Read when the commands run. */
    vkattn_tensor tree_mask;
} vkattn_attention_desc;

/* Checks a problem, chooses a kernel and builds its pipelines (the first of a kind compiles: up to seconds on CPU
 * drivers). On failure *plan is NULL. */
VKATTN_API vkattn_result vkattn_attention_plan(vkattn_context context, const vkattn_attention_desc *desc,
                                               vkattn_plan *plan);

/* What a kernel would make of a problem.
 *
 * chosen      1: what a plan takes
 * dispatches  of a plan; where tensors are too large to be bound whole, of its first part
 * shape       "16x16x16 matrices, 4 x 1 subgroups, 64 keys, 2 parts"; "" of unfused
 * obstacle    why it cannot serve; "" if it can */
typedef struct vkattn_option {
    vkattn_kernel kernel;
    uint32_t chosen;
    uint32_t dispatches;
    const char *shape;
    const char *obstacle;
} vkattn_option;

/* Tells what every kernel would make of an attention problem, or what stands in its way, the best first: options, a list of
 * vkattn_option, empty without queries. Nothing is compiled or recorded; where the device's kernels are tested before their first use,
 * the chosen one is. Fails as vkattn_attention_plan does. */
VKATTN_API vkattn_result vkattn_explain(vkattn_context context, const vkattn_attention_desc *desc,
                                        vkattn_list *options);

/* Fills in what a plan of the problem would take, or fails as vkattn_attention_plan does: with VKATTN_ERROR_UNSUPPORTED where no kernel
 * serves here. Nothing is compiled, tested or measured: a kernel that the self-test has not judged yet is taken to pass. */
VKATTN_API vkattn_result vkattn_attention_measure(vkattn_context context, const vkattn_attention_desc *desc,
                                                  vkattn_measure *measure);

/* Builds what plans of these problems need, so that making them later and their first run take no time for it: kernels
 * are tested, where the device is not trusted, and pipelines compiled. CPU drivers compile a pipeline when it is first
 * dispatched: there the call dispatches each, on nothing, on the context's queue, and waits.
 *
 * descs: count structures, each struct_size of the first behind the one before
 * threads: how many compile side by side, each started for the call and joined before it returns; 0 or 1: the
 *   caller's own
 * Fails as vkattn_attention_plan does, with the description's number before the message; the others are built all the
 * same. */
VKATTN_API vkattn_result vkattn_prewarm(vkattn_context context, const vkattn_attention_desc *descs, uint32_t count,
                                        uint32_t threads);

/* Measures which kernel and which tiles are the fastest for an attention problem on this device, on the context's queue
 * and on buffers of its own that hold every tensor of the description, and waits: some tenths of a second, and some
 * seconds where pipelines compile slowly. Plans of such problems (the same head sizes, group, types, masks and layouts;
 * lengths, and heads times batch, up to the same power of two) take the fastest from then on, in this context and,
 * through vkattn_context_save, in later ones. Each candidate's output is compared with that of the untuned plan first.
 * candidates: NULL, or where a list of vkattn_candidate is given, whose first is what a plan takes untuned; empty without queries or
 * keys. vkattn_tune_attention_backward (gradients.h) does the same for its gradients, vkattn_tune_linear (operators.h) for linear layers. */
VKATTN_API vkattn_result vkattn_tune(vkattn_context context, const vkattn_attention_desc *desc,
                                     vkattn_list *candidates);

/* Rows to write into a cache: what appends K or V, in the cache's storage type. Quantised caches are rounded as ggml's
 * reference quantiser rounds.
 *
 * source        [B,H,L,D], F32, F16 or BF16, any strides; bound as VKATTN_ROLE_SOURCE
 * cache         [B,H,capacity,D], F32, F16, BF16 or quantised blocks (Q8_0 ...); bound as VKATTN_ROLE_CACHE. Rows
 *               that are not written keep their bytes
 * offset        cache position of the first row
 * past_lengths  I32 [B], optional: takes the place of offset, sequence by sequence, read when the commands run
 * cu_seqlens    I32 [B+1], optional: source is packed, [1,H,total,D], as cu_seqlens_q of vkattn_attention_desc says; L
 *               is max_seqlen (0: total): what is longer is cut off. Rows of no sequence are not read. The cost
 *               follows total. Bound as VKATTN_ROLE_CU_SEQLENS_Q
 * block_table   I32 [B,N], optional: cache is a pool of pages [pages,H,P,D], as in vkattn_attention_desc; the capacity
 *               is N * P
 * rotation      how the rows are stored, as key_rotation of vkattn_attention_desc
 * scales        those of cache, as key_scales of vkattn_attention_desc; bound as VKATTN_ROLE_KEY_SCALES
 * makes_scales  1: scales have one of each row, and the append makes those of the rows that it writes: the largest finite
 *               magnitude of the row by the largest number of the type. 0: it reads them
 * With offset, offset + L must be at most the capacity; with past_lengths, rows beyond the capacity are dropped, and so
 * are those on a page outside the pool. Any size may be 0: nothing is then written.
 * Quantised: a block with an infinity or a NaN has that as its scale, so that it stays visible. */
typedef struct vkattn_kv_append_desc {
    VKATTN_STRUCT_SIZE(vkattn_kv_append_desc);
    vkattn_tensor source;
    vkattn_tensor cache;
    uint32_t offset;
    vkattn_tensor past_lengths;
    vkattn_tensor cu_seqlens;
    vkattn_tensor block_table;
    uint32_t max_seqlen;
    vkattn_rotation rotation;
    vkattn_tensor scales;
    uint32_t makes_scales;
} vkattn_kv_append_desc;

/* Plans one append. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_kv_append_plan(vkattn_context context, const vkattn_kv_append_desc *desc,
                                               vkattn_plan *plan);

/* What vkattn_index_plan makes of each head's product. */
typedef enum vkattn_index_activation {
    VKATTN_INDEX_RELU = 0,
    VKATTN_INDEX_IDENTITY = 1,
    VKATTN_INDEX_ACTIVATION_MAX_ENUM = 0x7fffffff
} vkattn_index_activation;

/* How vkattn_index_plan joins scores. */
typedef enum vkattn_index_reduce {
    VKATTN_INDEX_SUM = 0,  /* over heads */
    VKATTN_INDEX_MAX = 1,  /* over heads, or the visible keys of a block */
    VKATTN_INDEX_MEAN = 2, /* over the visible keys of a block */
    VKATTN_INDEX_REDUCE_MAX_ENUM = 0x7fffffff
} vkattn_index_reduce;

/* The N blocks of keys that score highest for each query, as DeepSeek's lightning indexer chooses them: what
 * key_indices of a vkattn_attention_desc takes.
 *
 *     score[b,i,j] = sum over h of weights[b,i,h] * activation(scale * query[b,h,i] . key[b,j])
 *
 * or the largest over h; a block's score is the largest or the mean of those of its visible keys. Hi heads of queries
 * share one head of keys. No tensor of size Lq x Lk is made: the workspace holds scores of some queries at a time.
 *
 * query    [B,Hi,Lq,D], F32, F16 or BF16, any strides; with cu_seqlens_q [1,Hi,total,D]. Bound as VKATTN_ROLE_QUERY
 * key      [B,1,Lk,D], or packed or in pages as key of vkattn_attention_desc, of its types. Bound as VKATTN_ROLE_KEY
 * weights  [B,Lq,Hi] F32, contiguous; with cu_seqlens_q [1,total,Hi]. Absent: 1. Bound as VKATTN_ROLE_WEIGHT
 * indices  [B,1,Lq,N] I32, contiguous; with cu_seqlens_q [1,1,total,N]. N is at most 2048 and at least 1. The N visible
 *          blocks of the highest scores, of equal scores those of lower numbers, in ascending order, then -1. A NaN
 *          is above every number. Bound as VKATTN_ROLE_INDICES
 * key_lengths, past_lengths, cu_seqlens_q, cu_seqlens_k, block_table, max_seqlen_q, max_seqlen_k, scale, mask_flags,
 * causal_alignment, window_left, window_right, past_len: as in vkattn_attention_desc
 * forced_first, forced_last: so many of a query's first and last visible blocks are in its list whatever their scores, as
 *          far as N allows
 * Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
typedef struct vkattn_index_desc {
    VKATTN_STRUCT_SIZE(vkattn_index_desc);
    vkattn_tensor query;
    vkattn_tensor key;
    vkattn_tensor weights;
    vkattn_tensor indices;
    vkattn_tensor key_lengths;
    vkattn_tensor past_lengths;
    vkattn_tensor cu_seqlens_q;
    vkattn_tensor cu_seqlens_k;
    vkattn_tensor block_table;
    uint32_t max_seqlen_q;
    uint32_t max_seqlen_k;
    vkattn_optional_float scale;
    uint32_t mask_flags; /* vkattn_mask_flags */
    vkattn_causal_alignment causal_alignment;
    int32_t window_left;
    int32_t window_right;
    vkattn_optional_uint past_len;
    uint32_t key_block_len; /* keys of a block; 0: 1 */
    vkattn_index_activation activation;
    vkattn_index_reduce head_reduce;  /* VKATTN_INDEX_SUM or VKATTN_INDEX_MAX */
    vkattn_index_reduce block_reduce; /* VKATTN_INDEX_MAX or VKATTN_INDEX_MEAN; of blocks of one key not read */
    uint32_t forced_first;
    uint32_t forced_last;
    vkattn_tensor key_scales; /* those of key, as in vkattn_attention_desc */
} vkattn_index_desc;

/* Plans one such choice of keys. */
VKATTN_API vkattn_result vkattn_index_plan(vkattn_context context, const vkattn_index_desc *desc, vkattn_plan *plan);

/* key_indices of a mask: of each of its rows the keys that it lets be seen, ascending, then -1; of more than N the first N. Attention
 * with them costs what the lists' length says and not Lk; it may be given attn_mask, too, for its numbers.
 *
 * attn_mask    [B|1,H|1,Lq|1,Lm], Lm at least 1, last stride 1: BOOL, F32 or F16, as in vkattn_attention_desc; of other numbers than
 *              0 and hidden ones only which are hidden counts
 * key_indices  [B,H,Lq,N] I32, last stride 1. B, H, Lq and N may be 0: nothing is then written */
typedef struct vkattn_mask_indices_desc {
    VKATTN_STRUCT_SIZE(vkattn_mask_indices_desc);
    vkattn_tensor attn_mask;
    vkattn_tensor key_indices;
} vkattn_mask_indices_desc;

/* Plans such lists. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_mask_indices_plan(vkattn_context context, const vkattn_mask_indices_desc *desc,
                                                  vkattn_plan *plan);

/* Attention over disjoint sets of keys, joined: the output and log_sum_exp of each set give those of their union, as if
 * one call had seen all the keys (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). For keys
 * split over devices, and for a prefix that many sequences share.
 *
 * part_count           sets, at least 1
 * partial_output       [B,Hq,Lq,Dv], that of the first set; F32, F16 or BF16, any strides; the next begins
 *                      partial_output_stride elements later; bound as VKATTN_ROLE_PARTIAL_OUTPUT
 * partial_log_sum_exp  [B,Hq,Lq] F32, any strides; the next set's begins partial_log_sum_exp_stride elements later;
 *                      bound as VKATTN_ROLE_PARTIAL_LOG_SUM_EXP. -inf: the set saw no key, and its output is not read.
 *                      Sinks: leave them out of every set, and add a set whose output is 0 and whose log_sum_exp is the
 *                      sink of the head. A set that was given them itself loses them where its query saw no key
 * partial_output_stride, partial_log_sum_exp_stride   any; times part_count at most 2^32 elements
 * output               [B,Hq,Lq,Dv], F32, F16 or BF16, any strides
 * log_sum_exp          [B,Hq,Lq] F32 contiguous, optional
 * accumulate           1: output and log_sum_exp hold one more set already, and are replaced by the union
 * Rows without any key become output 0, log_sum_exp -inf. B, Hq and Lq may be 0: nothing is then written. */
typedef struct vkattn_merge_desc {
    VKATTN_STRUCT_SIZE(vkattn_merge_desc);
    uint32_t part_count;
    uint32_t accumulate;
    vkattn_tensor partial_output;
    vkattn_tensor partial_log_sum_exp;
    vkattn_tensor output;
    vkattn_tensor log_sum_exp;
    uint64_t partial_output_stride;
    uint64_t partial_log_sum_exp_stride;
} vkattn_merge_desc;

/* Plans one merge. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_merge_plan(vkattn_context context, const vkattn_merge_desc *desc, vkattn_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
