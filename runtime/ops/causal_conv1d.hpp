#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// The caller's convolution, checked.
void plan_causal_conv1d(PlanBuilder &builder, const vkattn_causal_conv1d_desc &desc);

} // namespace vkattn
