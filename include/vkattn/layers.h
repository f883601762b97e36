/* Layers with weights, and caches: attention as models use it. */
#ifndef VKATTN_LAYERS_H
#define VKATTN_LAYERS_H

#include <vkattn/attention.h>
#include <vkattn/operators.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ layers */

/* What a layer computes; the names of its weights are at vkattn_layer_create. */
typedef enum vkattn_layer_kind {
    VKATTN_LAYER_MHA = 0,           /* MHA, MQA, GQA */
    VKATTN_LAYER_LATENT_MHA = 1,    /* K and V in one shared latent head, lifted by up_proj per head */
    VKATTN_LAYER_LATENT_QUERY = 2,  /* learned latent queries read the sequence (Perceiver) */
    VKATTN_LAYER_MLA = 3,           /* DeepSeek multi-head latent attention */
    VKATTN_LAYER_COMPRESSED_KV = 4, /* joint projection, latents lifted by one decompress_matrix */
    VKATTN_LAYER_ENCODER = 5,       /* attention and feed-forward with LayerNorm */
    VKATTN_LAYER_MLA_BLOCK = 6,     /* x + mla(rms(x)), then + mlp(rms(x)) */
    VKATTN_LAYER_KIND_COUNT = 7,
    VKATTN_LAYER_KIND_MAX_ENUM = 0x7fffffff
} vkattn_layer_kind;

/* Both forms give the same. With wkv_b.bias and softcap, or a mask that is a tensor, ABSORB computes as NAIVE does. */
typedef enum vkattn_mla_form {
    VKATTN_MLA_NAIVE = 0,  /* per-head K and V are expanded from the latent */
    VKATTN_MLA_ABSORB = 1, /* attention in the latent space; W_UK folded into the query, W_UV applied after */
    VKATTN_MLA_FORM_MAX_ENUM = 0x7fffffff
} vkattn_mla_form;

/* The sizes of a layer. Members that a kind does not list are ignored.
 *
 * every kind       num_heads: query heads; rope_theta: base of the rotary embedding; rope_interleaved (1: pairs (2i, 2i+1);
 *                  0: rotate-half pairs (i, i + D/2), of D elements that are rotated); rope_scaling; rotary_dim, but of MLA: the
 *                  first elements of a head that are rotated, even, up to the head size (0: all; without rope_theta 0);
 *                  rope_sections, rope_sections_interleaved; scale (left out: 1/sqrt of the size of Q and K heads); softcap
 *                  (0: none); norm_epsilon (left out: the kind's own)
 * MHA              embed_dim; num_kv_heads (0: num_heads), num_heads % num_kv_heads == 0; head_dim (0: embed_dim /
 *                  num_heads, which must divide); kv_head_mapping; rope_theta 0: no rotary embedding, else on Q and K
 * LATENT_MHA       embed_dim; latent_dim (= head size; embed_dim % num_heads == 0)
 * LATENT_QUERY     input_dim (width of the sequence); latent_dim (width of the latents, % num_heads == 0); num_latents
 * MLA              embed_dim ("dim"); qk_nope_head_dim, qk_rope_head_dim, v_head_dim; q_lora_rank (0: none);
 *                  kv_lora_rank; mla_form; rope_theta (0: no rotary embedding)
 * COMPRESSED_KV    embed_dim ("d_model"); latent_dim; decompress_lora_rank (0: none); rope_theta (on Q only)
 * ENCODER          those of MHA; ffn_dim; activation; norm_first (1: pre-norm, 0: post-norm); LayerNorm eps 1e-5
 * MLA_BLOCK        those of MLA; mlp_ratio (hidden width = embed_dim * mlp_ratio); GELU; RMSNorm eps 1e-6
 *
 * rope_sections: pairs of elements that turn by each stream of the call's positions, in Qwen2-VL time, height and width. Their sum is
 * half the rotated elements; the streams are as many as the last that is not 0, or one where all are 0. The sections lie one behind the
 * other (Qwen2-VL). With rope_sections_interleaved (Qwen3-VL) pair i of S streams belongs to stream i % S while that one has pairs left,
 * which must then lie within the head, and else to stream 0.
 *
 * Of MLA and MLA_BLOCK, index_topk above 0 makes attention sparse as DeepSeek-V3.2 has it (DSA). An indexer scores the keys of each
 * query, of those that the call's masks leave visible, and the query attends the index_topk keys of the highest scores. It attends
 * all of them where there are no more.
 *
 *     queries  q = indexer.wq_b q_norm(wq_a x), index_n_heads of index_head_dim elements
 *     keys     k = LayerNorm(indexer.wk x), one a token, which the cache keeps; epsilon 1e-6
 *     weights  w = indexer.weights_proj x
 *     score[i,j] = sum over h of w[i,h] * relu(q[i,h] . k[j])
 *
 * The first qk_rope_head_dim elements of q and k are rotated by their positions. q_lora_rank must not be 0. Calls of the layer take no
 * attn_mask, block_mask, key_padding_mask, tree_mask and attn_weights.
 *
 * index_n_heads            at least 1
 * index_head_dim           from qk_rope_head_dim to 576
 * index_topk               1 to 2048; 0: no indexer, and the other three are 0
 * index_rope_interleaved   as rope_interleaved, of the indexer: 0 in DeepSeek-V3.2, 1 in GLM-5 */
typedef struct vkattn_layer_config {
    VKATTN_STRUCT_SIZE(vkattn_layer_config);
    vkattn_layer_kind kind;
    uint32_t embed_dim;
    uint32_t input_dim;
    uint32_t num_heads;
    uint32_t num_kv_heads;
    uint32_t head_dim;
    vkattn_kv_head_mapping kv_head_mapping;
    uint32_t latent_dim;
    uint32_t num_latents;
    uint32_t qk_nope_head_dim;
    uint32_t qk_rope_head_dim;
    uint32_t v_head_dim;
    uint32_t q_lora_rank;
    uint32_t kv_lora_rank;
    vkattn_mla_form mla_form;
    uint32_t decompress_lora_rank;
    uint32_t ffn_dim;
    vkattn_activation activation;
    uint32_t norm_first;
    uint32_t mlp_ratio;
    float rope_theta;
    uint32_t rope_interleaved;
    vkattn_rope_scaling rope_scaling;
    vkattn_optional_float scale;
    float softcap;
    vkattn_optional_float norm_epsilon;
    uint32_t index_n_heads;
    uint32_t index_head_dim;
    uint32_t index_topk;
    uint32_t index_rope_interleaved;
    uint32_t rotary_dim;
    uint32_t rope_sections[VKATTN_ROPE_SECTIONS];
    uint32_t rope_sections_interleaved; /* 0 or 1 */
} vkattn_layer_config;

/* One named weight, contiguous. Matrices may have any type of a weight (vkattn_enumerate_types), all others F32, F16 or BF16.
 *
 * name           for instance "q_proj.weight"
 * tensor         strides and offset are ignored
 * data, bytes    in host memory, copied by vkattn_layer_create, and how many bytes lie there: at least those of the tensor; or NULL and
 *                0, and:
 * region         of a storage buffer that holds the weight, which is read there: it must outlive the layer and all that uses it, and be
 *                written before a plan of the layer runs; its offset is a multiple of 16. Where the facts say
 *                buffers_have_addresses, the buffer needs VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT */
typedef struct vkattn_weight {
    const char *name;
    vkattn_tensor tensor;
    const void *data;
    uint64_t bytes;
    vkattn_region region;
} vkattn_weight;

/* A layer with its weights. Immutable. */
typedef struct vkattn_layer_opaque *vkattn_layer;

/* Creates a layer and uploads its weights once. Linears are [out, in]; each has an optional .bias [out].
 *
 * MHA            q_proj [num_heads*head_dim, embed_dim], k_proj and v_proj [num_kv_heads*head_dim, embed_dim], out_proj
 *                [embed_dim, num_heads*head_dim]; q_norm.weight and k_norm.weight [head_dim], optional: RMSNorm of each
 *                head before the rotary embedding (eps 1e-6); gate_proj [num_heads*head_dim, embed_dim], optional: what
 *                attention gives is multiplied by the sigmoid of its product with the query's tokens, before out_proj
 * LATENT_MHA     q_proj [num_heads*latent_dim, embed_dim], kv_proj [2*latent_dim, embed_dim] (K latent, then V latent),
 *                up_proj [embed_dim, latent_dim]
 * LATENT_QUERY   latents [num_latents, latent_dim], q_proj and out_proj [latent_dim, latent_dim], k_proj and v_proj
 *                [latent_dim, input_dim]
 * MLA            wq [num_heads*(nope+rope), embed_dim], or wq_a [q_lora_rank, embed_dim], q_norm.weight [q_lora_rank],
 *                wq_b [num_heads*(nope+rope), q_lora_rank]; wkv_a [kv_lora_rank+rope, embed_dim], kv_norm.weight
 *                [kv_lora_rank], wkv_b [num_heads*(nope+v), kv_lora_rank] (per head: nope rows, then v rows), wo
 *                [embed_dim, num_heads*v]; with an indexer, indexer.wq_b [index_n_heads*index_head_dim, q_lora_rank],
 *                indexer.wk [index_head_dim, embed_dim], indexer.k_norm.weight [index_head_dim], .bias optional, and
 *                indexer.weights_proj [index_n_heads, embed_dim]
 * COMPRESSED_KV  uqkv_proj [embed_dim+2*latent_dim, embed_dim], latent_proj [latent_dim, latent_dim], decompress_matrix
 *                [latent_dim, embed_dim], with a rank decompress_lora_a [latent_dim, rank] and decompress_lora_b [rank,
 *                embed_dim]; out_proj [embed_dim, embed_dim]
 * ENCODER        self_attn. and the names of MHA; ffn.fc1 [ffn_dim, embed_dim], ffn.fc2 [embed_dim, ffn_dim]; norm1 and
 *                norm2 .weight [embed_dim], .bias optional
 * MLA_BLOCK      attention. and the names of MLA; mlp.fc1 [embed_dim*mlp_ratio, embed_dim], mlp.fc2 [embed_dim,
 *                embed_dim*mlp_ratio]; norm1.weight and norm2.weight [embed_dim]
 * Missing, unknown and misshapen weights are all named in one message. On failure *layer is NULL. */
VKATTN_API vkattn_result vkattn_layer_create(vkattn_context context, const vkattn_layer_config *config,
                                             const vkattn_weight *weights, uint32_t weight_count, vkattn_layer *layer);

/* Destroys a layer, whose plans keep what they need of it. NULL is ignored. */
VKATTN_API void vkattn_layer_destroy(vkattn_layer layer);

/* ------------------------------------------------------------------------------------------------ caches */

/* Keys and values of earlier tokens on the device, with room for a fixed number of them, and the number that each
 * sequence holds. A call of a layer that names a cache, and vkattn_cache_append_plan, read those numbers on the device,
 * append their tokens there and count them as their last step: a recorded command buffer, submitted again, goes on with
 * the next token. */
typedef struct vkattn_cache_opaque *vkattn_cache;

/* How many elements of a cache of F8_E4M3 or F8_E5M2 share a scale: key_scales of vkattn_attention_desc. */
typedef enum vkattn_scaling {
    VKATTN_SCALING_NONE = 0,
    VKATTN_SCALING_TENSOR = 1, /* all of the part */
    VKATTN_SCALING_HEAD = 2,   /* those of a KV head */
    VKATTN_SCALING_ROW = 3, /* those of a token and head: appends make it from the row, and no calibration is needed */
    VKATTN_SCALING_MAX_ENUM = 0x7fffffff
} vkattn_scaling;

/* layer       takes the sizes from it: MHA, ENCODER (K and V heads), MLA, MLA_BLOCK (one head of kv_lora_rank +
 *             qk_rope_head_dim, no values of its own; with an indexer its keys of index_head_dim take the values' place),
 *             COMPRESSED_KV (the two latents); LATENT_MHA and LATENT_QUERY keep no cache. NULL: from the next three
 * kv_heads, head_dim, v_head_dim   for the operator attention; v_head_dim 0: the values are a part of the keys
 * batch       sequences; capacity: tokens of each; both at most 2^29, and may be 0
 * key_type, value_type   F32, F16, BF16 or quantised blocks (Q8_0 ...), independent of each other; quantised: sizes
 *             multiples of 32
 * page_len, page_count   0: every sequence has memory for its capacity. Else it is a pool of page_count pages of
 *             page_len tokens each, a power of two and at least 8; sequences get pages as tokens are reserved, and
 *             may share them. The capacity need not be a multiple of page_len
 * key_rotation, value_rotation   how the cache stores them. Appends to it rotate, and layers that attend it; what is read back is
 *             not rotated; attention over its parts says the same. Not for COMPRESSED_KV, and of MLA the absorbed form alone
 * key_scaling, value_scaling   scales that the cache keeps beside its keys and values; of other types than F8_E4M3 and F8_E5M2, and
 *             of values that are a part of the keys, NONE. Appends to the cache, and layers that attend it, follow; attention over
 *             its parts binds VKATTN_CACHE_KEY_SCALES and VKATTN_CACHE_VALUE_SCALES. Not for COMPRESSED_KV, and of MLA the absorbed
 *             form alone
 * key_scales, key_scale_count, value_scales, value_scale_count   of TENSOR a number, of HEAD one of each KV head; finite and above
 *             0; read here and kept. Else NULL and 0 */
typedef struct vkattn_cache_info {
    VKATTN_STRUCT_SIZE(vkattn_cache_info);
    vkattn_layer layer;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;
    uint32_t batch;
    uint32_t capacity;
    vkattn_type key_type;
    vkattn_type value_type;
    uint32_t page_len;
    uint32_t page_count;
    vkattn_rotation key_rotation;
    vkattn_rotation value_rotation;
    vkattn_scaling key_scaling;
    vkattn_scaling value_scaling;
    const float *key_scales;
    uint32_t key_scale_count;
    const float *value_scales;
    uint32_t value_scale_count;
} vkattn_cache_info;

/* A tensor of a cache. */
typedef enum vkattn_cache_part {
    VKATTN_CACHE_KEYS = 0,    /* [batch, heads, capacity, head_dim]; of pages [page_count, heads, page_len, head_dim] */
    VKATTN_CACHE_VALUES = 1,  /* the same with v_head_dim */
    VKATTN_CACHE_LENGTHS = 2, /* I32 [batch]: the tokens that each sequence holds */
    VKATTN_CACHE_BLOCK_TABLE = 3, /* I32 [batch, pages of the capacity]; only with pages */
    VKATTN_CACHE_KEY_SCALES = 4, /* F32 [1, 1 or heads, 1, 1], or of each row as KEYS with 1 in place of head_dim; where
                                     vkattn_cache_info says so */
    VKATTN_CACHE_VALUE_SCALES = 5,
    VKATTN_CACHE_PART_MAX_ENUM = 0x7fffffff
} vkattn_cache_part;

/* Creates an empty cache and allocates its device memory, all of it. The layer may be destroyed before the cache.
 * On failure *cache is NULL. */
VKATTN_API vkattn_result vkattn_cache_create(vkattn_context context, const vkattn_cache_info *info,
                                             vkattn_cache *cache);

/* Destroys a cache, which the plans that name it keep. NULL is ignored. */
VKATTN_API void vkattn_cache_destroy(vkattn_cache cache);

/* Returns the bytes of device memory. 0 for NULL. */
VKATTN_API uint64_t vkattn_cache_bytes(vkattn_cache cache);

/* Returns the pages that no sequence holds. 0 for NULL, and without pages. */
VKATTN_API uint32_t vkattn_cache_free_pages(vkattn_cache cache);

/* Writes the tokens that each sequence holds as far as the host has counted; count: its batch. */
VKATTN_API vkattn_result vkattn_cache_lengths(vkattn_cache cache, uint32_t *lengths, uint32_t count);

/* Counts an append, and gives pages to the sequences that need them, before the commands that make it are submitted.
 * tokens, count: how many tokens each sequence gets, 0 for none; count 1: all of them as many. If the commands are not
 * submitted then, vkattn_cache_rewind takes it back
 * Fails with VKATTN_ERROR_NO_ROOM, and changes nothing, if a sequence has no room or too few pages are free:
 * nothing must then be submitted. vkattn_run and vkattn_submit call it themselves where every sequence gets as many
 * tokens; with cu_seqlens, whose numbers are on the device, call it before each of them with just these numbers. After
 * vkattn_record, call it before each submission. A page that other sequences share is copied before it is written.
 * Where pages are given out or copied, it waits for the context's queue; on others no commands of the
 * cache may be pending then. Whatever is counted, kernels write within the capacity, to pages that the sequence has. */
VKATTN_API vkattn_result vkattn_cache_reserve(vkattn_cache cache, const uint32_t *tokens, uint32_t count);

/* Forgets all tokens of a sequence but its first `length`, and gives back pages that it needs no more. No commands of
 * the cache may be pending, here and below. */
VKATTN_API vkattn_result vkattn_cache_rewind(vkattn_cache cache, uint32_t sequence, uint32_t length);

/* Keeps of a sequence its first `length` tokens and, behind them, `count` of the later ones, whose places in the sequence `tokens`
 * lists, ascending: the accepted path of a tree of drafts. The others are forgotten as vkattn_cache_rewind does. Of a cache with pages
 * the sequence must share none that tokens move to. Waits. */
VKATTN_API vkattn_result vkattn_cache_keep(vkattn_cache cache, uint32_t sequence, uint32_t length,
                                           const uint32_t *tokens, uint32_t count);

/* Makes a sequence hold what another holds, of the same cache or of one with the same heads, sizes and types in the
 * same context; their pages may differ. Waits. */
VKATTN_API vkattn_result vkattn_cache_copy_sequence(vkattn_cache from, uint32_t from_sequence, vkattn_cache to,
                                                    uint32_t to_sequence);

/* Makes an empty sequence of a cache with pages hold the first `length` tokens of another, in its pages: nothing is
 * copied before one of the two writes to a page that both hold. Waits. */
VKATTN_API vkattn_result vkattn_cache_share_prefix(vkattn_cache cache, uint32_t from_sequence, uint32_t to_sequence,
                                                   uint32_t length);

/* Reads KEYS or VALUES of a sequence as f32, dequantised: [heads, length, size], count numbers in all. Waits. */
VKATTN_API vkattn_result vkattn_cache_read(vkattn_cache cache, vkattn_cache_part part, uint32_t sequence, float *values,
                                           uint64_t count);

/* Gives the layout and the region of a part, to bind it in plans of the operators; NULL of either is ignored. The buffer is the
 * cache's: a plan that binds it does not keep the cache. */
VKATTN_API vkattn_result vkattn_cache_tensor(vkattn_cache cache, vkattn_cache_part part, vkattn_tensor *tensor,
                                             vkattn_region *region);

/* Tokens to append to a cache after what each sequence holds, without a layer.
 *
 * key         [B,H,L,D], F32, F16 or BF16, any strides; bound as VKATTN_ROLE_KEY
 * value       [B,H,L,Dv], the same; bound as VKATTN_ROLE_VALUE. Absent where the values are a part of the keys
 * cu_seqlens  I32 [B+1], optional: key and value are packed, [1,H,total,D], as cu_seqlens_q of vkattn_attention_desc
 *             says, so that sequences may get different numbers of tokens; L is max_seqlen (0: total); what is longer
 *             is cut off; bound as VKATTN_ROLE_CU_SEQLENS_Q
 * Tokens beyond the capacity, or that no pages are reserved for, are dropped. */
typedef struct vkattn_cache_append_desc {
    VKATTN_STRUCT_SIZE(vkattn_cache_append_desc);
    vkattn_cache cache;
    vkattn_tensor key;
    vkattn_tensor value;
    vkattn_tensor cu_seqlens;
    uint32_t max_seqlen;
} vkattn_cache_append_desc;

/* Plans one append, whose last step counts the tokens in VKATTN_CACHE_LENGTHS. The plan keeps the cache. Attention after it binds the
 * parts of the cache, LENGTHS as key_lengths: docs/caches.md. On failure *plan is NULL. */
VKATTN_API vkattn_result vkattn_cache_append_plan(vkattn_context context, const vkattn_cache_append_desc *desc,
                                                  vkattn_plan *plan);

/* ------------------------------------------------------------------------------------------------ calls of layers */

/* One use of a layer: the tensors around it.
 *
 * query [B,Lq,width] is the layer's input, output its result: F32, F16 or BF16 each, last stride 1. Widths are
 *   embed_dim, but for LATENT_QUERY: query [B,Lk,input_dim], output [B,num_latents,latent_dim]. B and L may be 0 here
 *   and below: what has no tokens writes nothing, and queries without keys are attended as vkattn_attention_desc says
 * key and value [B,Lk,embed_dim]: MHA, for cross attention; LATENT_MHA takes key alone. Absent: taken from query
 * past_key, past_value: the cache so far, P tokens, copied in front of the new ones; both or neither
 * present_key, present_value: receive the whole cache, P + Lk tokens; both or neither. With past_len = P and no
 *   past_key, their first P tokens are taken as already there: an in-place cache
 *   MHA, ENCODER: [B,Hkv,P,head_dim]; COMPRESSED_KV: the two latents [B,P,latent_dim]; MLA, MLA_BLOCK: past_key and
 *   present_key alone, [B,P,kv_lora_rank+qk_rope_head_dim]; with an indexer past_value and present_value too, its keys
 *   [B,P,index_head_dim]. F32, F16 or BF16
 * attn_mask, block_mask, block_q_len, block_kv_len, key_padding_mask, key_lengths, attn_weights, mask_flags,
 *   causal_alignment, windows, tree_mask: as in vkattn_attention_desc, with Lk counting the past. A tree changes no position of the
 *   rotary embedding: give positions, the past and each draft's depth
 * residual [B,Lq,embed_dim], last stride 1, optional: added to the output, and may be it. MHA and MLA
 * LATENT_MHA and LATENT_QUERY take no cache, neither as tensors nor as an object
 * cache: in place of past_* and present_*: the call's tokens are appended to it. Lk is then its capacity, of which keys
 *   beyond the tokens held are hidden, and its lengths are the positions; past_len must be 0 and key and value absent.
 *   The plan must be destroyed before the cache
 * cu_seqlens [B+1] I32, optional: query is packed, [1,total,width], and output and residual are, as cu_seqlens_q of
 *   vkattn_attention_desc says; Lq is max_seqlen, the longest sequence (0: total). With a cache, whose batch is B, each
 *   sequence appends its own tokens: vkattn_cache_reserve. Without one each attends to itself. key, value, past_* and
 *   present_* must be absent. Tokens of no sequence, and those beyond max_seqlen, get any output. Bound as
 *   VKATTN_ROLE_CU_SEQLENS_Q. LATENT_QUERY takes none
 * positions [S,B,Lq] I32 contiguous, [S,1,total] of packed tokens, optional: what the rotary embedding turns each token's query and key
 *   by, in place of its place in the sequence, in the streams of the layer's rope_sections; below 0 as 0. Masks and the cache follow the
 *   places. key and value must be absent. Bound as VKATTN_ROLE_POSITIONS
 * past_len: tokens in the cache before this call, and the position of the first new one; must equal P where past_key is
 *   given (or be 0: taken from it)
 * norm_weight, norm_epsilon   of MHA without key and value, and MLA: RMSNorm of the query before it is projected, as those of
 *             vkattn_linear_desc; [embed_dim]
 * intermediate_type   F32, F16 or BF16: of what lies between the steps: normalised tokens, Q, K and V before the cache, attended
 *             values, hidden features; NONE: that of the query. What is added up from layer to layer, query, residual and output,
 *             keeps its own type, and each product and each attention accumulates in f32. Where the device does not compute in it
 *             (half_workspaces of vkattn_device_facts for F16) it is F32. F16 for a query of F32: numbers up to 65504 then lie
 *             between the steps, and matrix units serve all products of more than a few tokens
 * activations  what vkattn_layer_activations says, optional: receives what the backward pass reads of this one. MHA and MLA, of whole
 *             sequences: no cache, past or present. MLA is then computed in the naive form. Bound as VKATTN_ROLE_ACTIVATIONS */
typedef struct vkattn_layer_call {
    VKATTN_STRUCT_SIZE(vkattn_layer_call);
    vkattn_tensor query;
    vkattn_tensor key;
    vkattn_tensor value;
    vkattn_tensor output;
    vkattn_tensor past_key;
    vkattn_tensor past_value;
    vkattn_tensor present_key;
    vkattn_tensor present_value;
    vkattn_tensor attn_mask;
    vkattn_tensor block_mask;
    uint32_t block_q_len;
    uint32_t block_kv_len;
    vkattn_tensor key_padding_mask;
    vkattn_tensor key_lengths;
    vkattn_tensor attn_weights;
    vkattn_tensor residual;
    uint32_t mask_flags;
    vkattn_causal_alignment causal_alignment;
    int32_t window_left;
    int32_t window_right;
    uint32_t past_len;
    vkattn_kernel kernel;
    vkattn_cache cache;
    vkattn_tensor cu_seqlens;
    uint32_t max_seqlen;
    vkattn_tensor norm_weight;
    vkattn_optional_float norm_epsilon;
    vkattn_type intermediate_type;
    vkattn_tensor tree_mask;
    vkattn_tensor positions;
    vkattn_tensor activations;
} vkattn_layer_call;

/* Plans one use of a layer: the whole layer then records as one plan. On failure *plan is NULL. */
VKATTN_API vkattn_result vkattn_layer_plan(vkattn_layer layer, const vkattn_layer_call *call, vkattn_plan *plan);

/* Fills in what a plan of such a call would take on this device, without the layer: its weights are only thought of,
 * as ones that the layer uploads: those in buffers of yours that do not lie behind each other take more dispatches. Where it matters
 * whether there is a bias, which it does of VKATTN_MLA_ABSORB alone (see there), says the more of the two; of quantised weights, with
 * which CPU drivers normalise few tokens in other kernels, it may be more than the plan takes. Compiles, tests and allocates nothing: a
 * kernel that the self-test has not judged yet is taken to pass. */
VKATTN_API vkattn_result vkattn_layer_measure(vkattn_context context, const vkattn_layer_config *config,
                                              const vkattn_layer_call *call, vkattn_measure *measure);

/* ------------------------------------------------------------------------------------------------ gradients of layers */

/* Describes what a call saves for its backward pass: F32 [N,64], contiguous, whose contents are the library's own. To be given as the call's
 * activations, bound in the forward pass, and given as activations, bound in the backward pass. The call is that of the forward pass,
 * its activations ignored; offset 0. Fails with VKATTN_ERROR_INVALID_ARGUMENT, or VKATTN_ERROR_UNSUPPORTED for what has no gradients. */
VKATTN_API vkattn_result vkattn_layer_activations(vkattn_layer layer, const vkattn_layer_call *call,
                                                  vkattn_tensor *activations);

/* Where the gradient of a layer's weight goes.
 *
 * name     of the weight, as vkattn_weight has it; the weight is F32, F16 or BF16
 * tensor   of the weight's shape, F32, F16 or BF16; strides and offset are ignored: contiguous
 * region   of a storage buffer, as that of vkattn_weight; it must outlive the plan, and shares no memory with what is read */
typedef struct vkattn_weight_gradient {
    const char *name;
    vkattn_tensor tensor;
    vkattn_region region;
} vkattn_weight_gradient;

/* The gradients of sum(output * d_output) of one use of a layer, by the chain rule over the backward passes of its operators
 * (gradients.h): MHA, MQA and GQA with rotary embedding, norms of heads and the gate; MLA with its compressed keys and values and its norms.
 *
 * call            as of the forward pass, its output, residual and attn_weights ignored; its tensors are bound by its roles
 * activations     what the forward pass saved (vkattn_layer_activations), bound as VKATTN_ROLE_ACTIVATIONS; absent: it is computed again, in
 *                 the workspace, by the same kernels, and gives the same gradients
 * d_output        [B,Lq,embed_dim], last stride 1; bound as VKATTN_ROLE_D_OUTPUT. Also the gradient of the call's residual
 * residual        [B,Lq,embed_dim], last stride 1, optional, with d_query: the gradient of another branch, added to it; bound as
 *                 VKATTN_ROLE_RESIDUAL
 * d_query         [B,Lq,embed_dim], last stride 1; bound as VKATTN_ROLE_D_QUERY: of self attention the gradient of the hidden states, where the
 *                 call normalises them of what it is given. It may be the residual, bound to the same place with the same layout and type
 * d_key, d_value  [B,Lk,embed_dim], last stride 1, beside key and value alone; bound as VKATTN_ROLE_D_KEY and VKATTN_ROLE_D_VALUE
 * d_norm_weight   [embed_dim] contiguous, beside norm_weight alone; bound as VKATTN_ROLE_D_NORM_WEIGHT
 * gradients, gradient_count   of weights, each named once at most. Quantised weights have none, and take part in the others
 * accumulate      1: d_norm_weight and gradients, which are F32 then, are added to what they hold; else 0
 * F32, F16 or BF16 each. Gradients that are absent are not computed, and one is there at least; they share no memory with what is read, but
 * as said. Between the steps gradients have the type that activations have (intermediate_type), sums of several branches F32.
 * Without tokens gradients of weights are 0, or keep their bytes where they accumulate. Packed tokens that belong to no sequence must be
 * finite, and d_output 0 for them: they then count in no gradient, and have d_query 0 or the residual.
 * Calls with a cache, past_key or present_key, layers with an indexer and other kinds fail with VKATTN_ERROR_UNSUPPORTED; masks and
 * positions have no gradients. */
typedef struct vkattn_layer_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_layer_backward_desc);
    const vkattn_layer_call *call;
    vkattn_tensor activations;
    vkattn_tensor d_output;
    vkattn_tensor residual;
    vkattn_tensor d_query;
    vkattn_tensor d_key;
    vkattn_tensor d_value;
    vkattn_tensor d_norm_weight;
    const vkattn_weight_gradient *gradients;
    uint32_t gradient_count;
    uint32_t accumulate;
} vkattn_layer_backward_desc;

/* Plans one backward pass of a layer, as one plan. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or
 * VKATTN_ERROR_UNSUPPORTED. On failure *plan is NULL. */
VKATTN_API vkattn_result vkattn_layer_backward_plan(vkattn_layer layer, const vkattn_layer_backward_desc *desc,
                                                    vkattn_plan *plan);

/* Fills in what such a plan would take; the regions of gradients are not looked at. */
VKATTN_API vkattn_result vkattn_layer_backward_measure(vkattn_layer layer, const vkattn_layer_backward_desc *desc,
                                                       vkattn_measure *measure);

#ifdef __cplusplus
}
#endif

#endif
