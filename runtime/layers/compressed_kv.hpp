#pragma once

#include "runtime/layers/call.hpp"

namespace vkattn {

// One projection gives Q and two latents; one decompress_matrix (plus an optional low-rank term) lifts both to K and V.
// Rotary embedding on Q only. The cache holds the two latents after latent_proj, as past_key and past_value
// [B,P,latent].

vkattn_layer_config checked_compressed_kv_config(const vkattn_layer_config &config);
std::vector<WeightSpec> compressed_kv_weights(const vkattn_layer_config &config);
AttentionSizes compressed_kv_attention(const vkattn_layer_config &config);
void plan_compressed_kv(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
