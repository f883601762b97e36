#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// The caller's linear attention, checked.
void plan_linear_attention(PlanBuilder &builder, const vkattn_linear_attention_desc &desc);

} // namespace vkattn
