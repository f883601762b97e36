#pragma once

#include "runtime/emit/attention.hpp"
#include "runtime/kernels/choose.hpp"

namespace vkattn {

// Each tensor where the caller binds the role of its name.
AttentionSources attention_roles();
// The same, with V where K is if it is a part of it.
AttentionSources roles_of(const AttentionProblem &problem);

// Follows what tuning found (kept in the problem).
AttentionChoice choose_untested(Context &context, AttentionProblem &problem);
// The same, and tests shaders until those that are chosen have passed.
AttentionChoice choose_tested(Context &context, AttentionProblem &problem);

// Chooses a kernel and adds its dispatches to the plan.
void add_attention(PlanBuilder &builder, const AttentionProblem &problem, const AttentionSources &sources);

} // namespace vkattn
