#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// The grid of a kernel that gives `items` of each (batch, head) of a [B,H,L,D] tensor one invocation each, of so many
// elements.
void set_elementwise_grid(Step &step, uint64_t items, uint64_t elements_of_item, const vkattn_tensor &tensor);

} // namespace vkattn
