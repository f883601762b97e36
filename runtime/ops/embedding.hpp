#pragma once

#include "runtime/plan/plan.hpp"

namespace vkattn {

// The caller's lookup, checked.
void plan_embedding(Plan &plan, const vkattn_embedding_desc &desc);

} // namespace vkattn
