#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Plans the operator as vkattn_top_k_desc says; fails, naming the member.
void plan_top_k(PlanBuilder &builder, const vkattn_top_k_desc &desc);

} // namespace vkattn
