#pragma once

#include "runtime/layers/call.hpp"

namespace vkattn {

// MHA, MQA, GQA: q_proj, k_proj, v_proj, attention, out_proj.

vkattn_layer_config checked_mha_config(const vkattn_layer_config &config);

// prefix: what stands before each name, for instance "self_attn.".
void add_mha_weights(std::vector<WeightSpec> &specs, const vkattn_layer_config &config, const std::string &prefix);
AttentionSizes mha_attention(const vkattn_layer_config &config);

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
