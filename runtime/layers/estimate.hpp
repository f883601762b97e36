// The arithmetic of parameters, caches and FLOPs. Knows no Vulkan.
#pragma once

#include "vkattn/estimate.h"

#include <string_view>

namespace vkattn {

vkattn_layer_config config_from_name(std::string_view name, uint32_t d_model, uint32_t num_heads);

vkattn_estimate_result estimate(const vkattn_layer_config &config, const vkattn_estimate_info &info);

} // namespace vkattn
