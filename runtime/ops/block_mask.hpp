#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Plans what fills in a description's block_mask by its variant: see vkattn_block_mask_plan.
void plan_block_mask(PlanBuilder &builder, const vkattn_attention_desc &desc);

} // namespace vkattn
