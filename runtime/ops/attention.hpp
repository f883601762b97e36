#pragma once

#include "runtime/attention_problem.hpp"
#include "runtime/plan.hpp"

namespace vkattn {

// Where the tensors of an attention problem live, by binding number (BINDING_QUERY ... in shaders/interface.h).
using AttentionSources = std::array<Source, ATTENTION_BINDINGS>;

// Each tensor where the caller binds the role of its name.
AttentionSources attention_roles();

// Chooses a kernel and adds its dispatches to the plan.
void add_attention(Plan &plan, const AttentionProblem &problem, const AttentionSources &sources);

} // namespace vkattn
