/* vkattn estimate: what a layer would cost, before one is built. Pure arithmetic: no device, no context, no allocation.
 *
 *   vkattn_layer_config_from_name   the usual sizes of a named variant
 *   vkattn_estimate                 parameters, cache, work and reach of a layer, or of a stack of them
 *
 * Any number of threads may call both at once.
 */
#ifndef VKATTN_ESTIMATE_H
#define VKATTN_ESTIMATE_H

#include <vkattn/vkattn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the configuration of a variant from the model's width and its number of query heads alone.
 *
 * Below, head_dim = d_model / num_heads, which must divide for every name. A member that is not listed is 0.
 *
 * "mha"            MHA: one KV head a query head
 * "mqa"            MHA: one KV head in all
 * "gqa-N"          MHA: N KV heads in all (N not 0, num_heads % N == 0), for instance "gqa-4"; each serves num_heads /
 *                  N query heads, grouped mapping
 * "latent_mha"     LATENT_MHA: latent_dim = head_dim
 * "latent_query"   LATENT_QUERY: input_dim = latent_dim = d_model; 256 latents, as in Perceiver IO (arXiv 2107.14795)
 * "mla"            MLA in the proportions of DeepSeek-V2 (arXiv 2405.04434, section 3.1.2), whatever the model's size:
 *                  qk_nope_head_dim = v_head_dim = head_dim, qk_rope_head_dim = head_dim / 2 rounded up to an even
 *                  number, kv_lora_rank = 4 * head_dim, no q_lora_rank (as DeepSeek-V2-Lite); absorbed; rope_theta
 *                  10000, interleaved. A head_dim of 128 gives DeepSeek's own 128, 128, 64 and 512
 * "compressed_kv"  COMPRESSED_KV: latent_dim = d_model / 8 (d_model % 8 == 0), no low-rank term, rope_theta 10000
 * "encoder_layer"  ENCODER: num_heads KV heads, ffn_dim = 4 * d_model, GELU, pre-norm
 * "mla_block"      MLA_BLOCK: the sizes of "mla", mlp_ratio = 4
 *
 * Fails with VKATTN_ERROR_INVALID_ARGUMENT for any other name (the message lists them) and for sizes that do not
 * divide; *config is then left as it was. */
VKATTN_API vkattn_result vkattn_layer_config_from_name(const char *name, uint32_t d_model, uint32_t num_heads,
                                                       vkattn_layer_config *config);

/* The use to estimate for.
 *
 * batch         sequences that are served at once; 0: 1
 * prefill_len   tokens of each prompt, read in one call with an empty cache; 0: context_len
 * context_len   tokens of each sequence in the cache at the decode step, its own token among them; 0: 1
 * weight_type   any type of a weight, of which matrices then are; NONE: F16
 * cache_type    any type of a cache; NONE: weight_type. Quantised ones store 32 values in a block (Q8_0: 34 bytes); the
 *               row of a head or latent is rounded up to whole blocks
 * key_scaling, value_scaling  as those of vkattn_cache_info. Scales of ROW are counted, 4 bytes a token and head; those of
 *               TENSOR and HEAD, of which there are a few in all, are not
 * memory_bytes  what the weights and the cache must share; 0: max_context_len and max_sequences are not asked for
 * num_layers    layers of this configuration that the model stacks; 0: 1
 * with_biases   1: every linear layer and LayerNorm has its bias, 0: none has
 * causal        1: prefill is causal, so that half of its query-key pairs are computed (where it is square: not for
 *               LATENT_QUERY). Decode steps see the whole context either way */
typedef struct vkattn_estimate_info {
    VKATTN_STRUCT_SIZE(vkattn_estimate_info);
    uint32_t batch;
    uint64_t prefill_len;
    uint64_t context_len;
    vkattn_type weight_type;
    vkattn_type cache_type;
    uint64_t memory_bytes;
    uint32_t num_layers;
    uint32_t with_biases;
    uint32_t causal;
    vkattn_scaling key_scaling;
    vkattn_scaling value_scaling;
} vkattn_estimate_info;

/* What it costs: the num_layers layers together and, unless said otherwise, the whole batch.
 *
 * parameters             values in the layers' weights, as vkattn_layer_create takes them (no embeddings, no rotary
 *                        tables)
 * weight_bytes           the same in weight_type
 * cache_bytes_per_token  of one sequence, as the method keeps it: 2 * num_kv_heads * head_dim values a layer for MHA,
 *                        2 * latent_dim for LATENT_MHA and COMPRESSED_KV, kv_lora_rank + qk_rope_head_dim for MLA and
 *                        MLA_BLOCK, and index_head_dim more with an indexer; 0 for LATENT_QUERY and ENCODER, which are
 *                        meant for a whole sequence at once. Calls of layers (layers.h) differ in two kinds: LATENT_MHA
 *                        takes no cache there, ENCODER may
 * cache_bytes            of context_len tokens
 * *_projection_flops     of the products with weights, feed-forward included
 * *_attention_flops      of QK^T and PV: 2 * query heads * q_len * kv_len * (head_dim + v_head_dim), halved where
 *                        causal. With an indexer, of index_topk keys of a query at most, and of its scores of all of
 *                        them: 2 * index_n_heads * q_len * kv_len * index_head_dim
 * decode_*               of one step of one new token a sequence. 0 without a cache: such a layer takes no steps
 * decode_bytes           the least that such a step moves: the weights once, the cache once (with an indexer the latents
 *                        of index_topk tokens alone), the new tokens' entries. Activations are not counted
 * decode_intensity       FLOPs of a decode step per byte of decode_bytes; 0 without a cache
 * max_context_len        tokens that each of batch sequences can reach until the weights and the cache fill
 *                        memory_bytes
 * max_sequences          sequences of context_len tokens that memory_bytes holds beside the weights
 *
 * A multiply-add is two operations; norms, softmax, biases and activations are not counted. MLA is counted in the form
 * that config.mla_form names: naive expands wkv_b for every key, also for those in the cache; absorb applies it to the
 * new tokens alone and attends with heads of kv_lora_rank + qk_rope_head_dim and kv_lora_rank. COMPRESSED_KV lifts both
 * latents of every key. max_context_len and max_sequences are both 0 if the weights alone do not fit or memory_bytes is
 * 0, and UINT64_MAX if they fit and there is no cache. Workspaces and activations are not counted: see
 * vkattn_layer_measure, which needs a device. */
typedef struct vkattn_estimate_result {
    VKATTN_STRUCT_SIZE(vkattn_estimate_result);
    uint64_t parameters;
    uint64_t weight_bytes;
    uint64_t cache_bytes_per_token;
    uint64_t cache_bytes;
    double prefill_projection_flops;
    double prefill_attention_flops;
    double decode_projection_flops;
    double decode_attention_flops;
    uint64_t decode_bytes;
    double decode_intensity;
    uint64_t max_context_len;
    uint64_t max_sequences;
} vkattn_estimate_result;

/* Estimates a layer. info may be NULL: defaults for every member.
 *
 * Fails with VKATTN_ERROR_INVALID_ARGUMENT for a configuration that no layer could have, for a type that weights or
 * caches cannot have and for sizes whose bytes do not fit 64 bits; *result is then left as it was. */
VKATTN_API vkattn_result vkattn_estimate(const vkattn_layer_config *config, const vkattn_estimate_info *info,
                                         vkattn_estimate_result *result);

#ifdef __cplusplus
}
#endif

#endif
