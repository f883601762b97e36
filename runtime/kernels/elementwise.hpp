#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// The grid of a kernel that gives `items` of each (batch, head) of a [B,H,L,D] tensor one invocation each.
// Fails, naming the operator, where the device's workgroup counts are too small.
void set_elementwise_grid(const PlanBuilder &builder, Step &step, uint64_t items, const vkattn_tensor &tensor,
                          const char *op);

} // namespace vkattn
