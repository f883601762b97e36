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

// The whole layer on `tokens` [B,L,embed_dim], normalised if there is a norm, into output, plus residual if that view is present.
void add_mla(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const std::string &prefix,
             const View &tokens, const RmsNorm &norm, const View &output, const View &residual);

void plan_mla(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
