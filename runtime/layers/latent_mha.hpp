#pragma once

#include "runtime/layers/call.hpp"

namespace vkattn {

// K and V in one shared latent head of latent_dim; each head attends there, then its slice of up_proj lifts the result.

vkattn_layer_config checked_latent_mha_config(const vkattn_layer_config &config);
std::vector<WeightSpec> latent_mha_weights(const vkattn_layer_config &config);
AttentionSizes latent_mha_attention(const vkattn_layer_config &config);
void plan_latent_mha(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
