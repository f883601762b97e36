#pragma once

#include "runtime/layers/call.hpp"

namespace vkattn {

// MHA, MQA, GQA: q_proj, k_proj, v_proj, attention, out_proj.

vkattn_layer_config checked_mha_config(const vkattn_layer_config &config);

// prefix: what stands before each name, for instance "self_attn.".
void add_mha_weights(std::vector<WeightSpec> &specs, const vkattn_layer_config &config, const std::string &prefix);
AttentionSizes mha_attention(const vkattn_layer_config &config);

struct MhaInputs {
    ProductInput query, key, value; // [B,L,embed_dim]
    uint64_t batch() const { return query.tokens.tensor.shape[0]; }
    uint64_t q_len() const { return query.tokens.tensor.shape[1]; }
    uint64_t new_len() const { return key.tokens.tensor.shape[1]; }
};

// Those of the call, or `tokens` [B,L,width] for all three, if that view is present.
MhaInputs mha_inputs_of(const LayerCall &call, const View &tokens, uint64_t width);

// RMSNorm of each head of queries or keys, where the layer has its weight.
RmsNorm mha_head_norm(const Layer &layer, const std::string &name);

// The whole layer. Self attention of `tokens` if that view is present (an encoder's normalised input), else of the
// call's query, key and value. output [B,L,embed_dim]; residual, if present, is added to it.
struct MhaParts {
    std::string prefix;
    View tokens;
    View output;
    View residual;
};
void add_mha(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const MhaParts &parts);

void plan_mha(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
