#pragma once

#include "runtime/layers/call.hpp"

namespace vkattn {

// Attention and feed-forward, each with a residual and a LayerNorm (eps 1e-5) before it (norm_first) or after.

vkattn_layer_config checked_encoder_config(const vkattn_layer_config &config);
std::vector<WeightSpec> encoder_weights(const vkattn_layer_config &config);
void plan_encoder(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
