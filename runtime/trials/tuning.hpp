#pragma once

#include "runtime/ops/linear.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/trials/trials.hpp"

#include <vector>

namespace vkattn {

// Times the kernels that serve a problem and, of those that come near the best, other tiles than the planner's, one
// number at a time, on buffers of its own; keeps the fastest for problems of the class. The first candidate is what a
// plan takes untuned; one of them is kept.
std::vector<Candidate> tune(Context &context, const AttentionProblem &problem);

// The same of the shaders that serve a linear layer. Its views are bound for roles, as check_linear makes them.
std::vector<Candidate> tune(Context &context, const LinearOperands &operands);

} // namespace vkattn
