#pragma once

#include "runtime/layers/call.hpp"

namespace vkattn {

// x + mla(rms(x)), then + fc2(gelu(fc1(rms(x)))); RMSNorm eps 1e-6, hidden width embed_dim * mlp_ratio.

vkattn_layer_config checked_mla_block_config(const vkattn_layer_config &config);
std::vector<WeightSpec> mla_block_weights(const vkattn_layer_config &config);
void plan_mla_block(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
