// The quantised storage formats of K and V, made on the host.
#pragma once

#include <vkattn/vkattn.h>

#include <cstddef>
#include <span>
#include <vector>

namespace vkattn::tools {

bool is_quantised(vkattn_type type);

// The blocks (ggml's layout, rounded as its reference quantiser rounds) of so many values, a multiple of 32.
// type: VKATTN_TYPE_Q8_0 or VKATTN_TYPE_Q4_0.
std::vector<std::byte> quantise(vkattn_type type, std::span<const double> values);

} // namespace vkattn::tools
