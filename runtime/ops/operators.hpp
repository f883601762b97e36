#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Each operator of VKATTN_OPERATORS as its call plans it: checks the description, and adds the steps, where the caller binds the
// roles. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, what it is and what was expected.
#define VKATTN_PLAN(name) void plan_##name(PlanBuilder &builder, const vkattn_##name##_desc &desc);
VKATTN_OPERATORS(VKATTN_PLAN)
#undef VKATTN_PLAN

// Plans what fills in a description's block_mask by its variant: see vkattn_block_mask_plan.
void plan_block_mask(PlanBuilder &builder, const vkattn_attention_desc &desc);

} // namespace vkattn
