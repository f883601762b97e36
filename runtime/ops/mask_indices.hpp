#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// The caller's lists of what a mask lets be seen, checked.
void plan_mask_indices(PlanBuilder &builder, const vkattn_mask_indices_desc &desc);

} // namespace vkattn
