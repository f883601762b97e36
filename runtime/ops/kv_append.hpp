#pragma once

#include "runtime/emit/rows.hpp"

namespace vkattn {

// Where the caller binds them. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, what it is and what was
// expected.
void plan_kv_append(PlanBuilder &builder, const vkattn_kv_append_desc &desc);

} // namespace vkattn
