#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// The caller's choice of the greatest, checked.
void plan_argmax(PlanBuilder &builder, const vkattn_argmax_desc &desc);

} // namespace vkattn
