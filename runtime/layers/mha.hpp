#pragma once

#include "runtime/layers/layer.hpp"

namespace vkattn {

vkattn_layer_config checked_mha_config(const vkattn_layer_config &config);
std::vector<WeightSpec> mha_weights(const vkattn_layer_config &config);
void plan_mha(Plan &plan, const Layer &layer, const vkattn_layer_call &call);

} // namespace vkattn
