#pragma once

#include "runtime/attention_problem.hpp"
#include "runtime/plan.hpp"
#include "shaders/interface/attention.h"

namespace vkattn {

struct AttentionChoice;

// Where the tensors of an attention problem live, by binding number (BINDING_QUERY ... in shaders/interface/attention.h).
using AttentionSources = std::array<Source, ATTENTION_BINDINGS>;

// Each tensor where the caller binds the role of its name.
AttentionSources attention_roles();
// The same, with V where K is if it is a part of it.
AttentionSources roles_of(const AttentionProblem &problem);

// The tensors by the same numbers; nullptr where a number stands for none of the problem.
std::array<const vkattn_tensor *, ATTENTION_BINDINGS> tensors_of(const AttentionProblem &problem);

// The shader of the choice's first dispatch, for kernels other than unfused.
Module module_of(const AttentionChoice &choice, const DeviceTraits &traits);

// Chooses a kernel and adds its dispatches to the plan.
void add_attention(Plan &plan, const AttentionProblem &problem, const AttentionSources &sources);

} // namespace vkattn
