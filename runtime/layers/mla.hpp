#pragma once

#include "runtime/layers/call.hpp"

namespace vkattn {

// DeepSeek multi-head latent attention (DeepSeek-V2, 2024). The cache is [c | k_pe] per token, past_key and present_key
// [B,P,kv_lora_rank + qk_rope_head_dim]; there is no past_value or present_value.
// naive expands K and V of every head from the latent; absorb attends in the latent space. Both agree, biases included:
// b_K adds the same to all scores of a query, b_V is added after the softmax, whose weights sum to one.

vkattn_layer_config checked_mla_config(const vkattn_layer_config &config);

// prefix: what stands before each name, for instance "attention.".
void add_mla_weights(std::vector<WeightSpec> &specs, const vkattn_layer_config &config, const std::string &prefix);
AttentionSizes mla_attention(const vkattn_layer_config &config);

constexpr float kMlaEpsilon = 1e-6f; // of its norms

// One use of the layer on its way through the plan.
struct Mla {
    PlanBuilder &builder;
    const Layer &layer;
    const LayerCall &call;
    std::string prefix;
    uint64_t batch, len;
    vkattn_type type; // of what lies in the workspace
    Positions positions;
    View block_table; // of the call's cache, where that has pages
    View key_indices; // that the indexer chose, if it did
    const vkattn_layer_config &config() const { return layer.config(); }
    uint64_t heads() const { return config().num_heads; }
    uint64_t nope() const { return config().qk_nope_head_dim; }
    uint64_t rope() const { return config().qk_rope_head_dim; }
    uint64_t values() const { return config().v_head_dim; }
    uint64_t rank() const { return config().kv_lora_rank; }
    View weight(const char *name) const { return layer.weight(prefix + name); }
};

// One tensor of every head from the one latent of a token.
View for_every_mla_head(const Mla &mla, const View &one_head);

// Values [B,H,T,v], and the first nope elements of keys, of every head from normalised latents [B,1,T,rank]. Behind a barrier of its own
// the rest of the keys may be written beside the values; the caller adds the barrier after.
void add_mla_expansion(const Mla &mla, const View &latents, const View &keys, const View &values);

// The core attention without what it attends.
CoreAttention mla_core(const Mla &mla);

// The whole layer on `tokens` [B,L,embed_dim], normalised if there is a norm, into output, plus residual if that view is present.
void add_mla(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const std::string &prefix,
             const View &tokens, const RmsNorm &norm, const View &output, const View &residual);

void plan_mla(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
