#pragma once

#include "runtime/layers/call.hpp"

namespace vkattn {

// Learned latent queries read the sequence (Perceiver): query is the sequence, output [B,num_latents,latent_dim].

vkattn_layer_config checked_latent_query_config(const vkattn_layer_config &config);
std::vector<WeightSpec> latent_query_weights(const vkattn_layer_config &config);
AttentionSizes latent_query_attention(const vkattn_layer_config &config);
void plan_latent_query(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
