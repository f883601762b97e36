#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Plans the operator as vkattn_index_desc says; fails, naming the member.
void plan_index(PlanBuilder &builder, const vkattn_index_desc &desc);

} // namespace vkattn
