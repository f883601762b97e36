// The arithmetic of parameters, caches and FLOPs. Knows no Vulkan.
#pragma once

#include "vkattn/estimate.h"

#include <string_view>

namespace vkattn {

vkattn_layer_config config_from_name(std::string_view name, uint32_t d_model, uint32_t num_heads);

// Bytes of a layer's weights in a type; with_biases: of its biases too.
uint64_t weight_bytes(const vkattn_layer_config &config, bool with_biases, vkattn_type type);

vkattn_estimate_result estimate(const vkattn_layer_config &config, const vkattn_estimate_info &info);

} // namespace vkattn
