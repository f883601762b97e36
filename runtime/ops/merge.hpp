#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Joins the parts where the caller binds them: see vkattn_merge_desc. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the
// member, what it is and what was expected.
void plan_merge(PlanBuilder &builder, const vkattn_merge_desc &desc);

} // namespace vkattn
