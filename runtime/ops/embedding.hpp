#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// The caller's lookup, checked.
void plan_embedding(PlanBuilder &builder, const vkattn_embedding_desc &desc);

} // namespace vkattn
