#pragma once

#include "runtime/ops/gradients.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/trials/trials.hpp"

#include <optional>
#include <vector>

namespace vkattn {

// Times the kernels that serve a problem and, of those that come near the best, other tiles than the planner's, one
// number at a time, on buffers of its own; keeps the fastest for problems of the class. The first candidate is what a
// plan takes untuned; one of them is kept.
std::vector<Candidate> tune(Context &context, const AttentionProblem &problem);

// The same of the shaders that serve a linear layer. Its views are bound for roles, as check_linear makes them.
std::vector<Candidate> tune(Context &context, const LinearOperands &operands);

// The same of attention's gradients, those of queries and those of keys and values, one list after the other.
std::vector<Candidate> tune(Context &context, const std::vector<BackwardProblem> &problems);

// The same within a time, whose end leaves the fastest of what was measured by then. No candidates: nothing was kept, for there
// was no time for any beside what a plan takes untuned. problem: that of the operands, of several heads too.
std::vector<Candidate> tune(Context &context, const AttentionProblem &problem, TrialTime &time);
std::vector<Candidate> tune(Context &context, const BackwardProblem &problem, TrialTime &time);
std::vector<Candidate> tune(Context &context, const LinearProblem &problem, const LinearOperands &operands,
                            TrialTime &time);

// The tensors of an attention problem, filled as kAttentionTensors says, and their bytes. log_sum_exp: where its output and this are
// what is read, and not compared.
TrialBuffers trial_buffers(Context &context, const AttentionProblem &problem,
                           std::optional<float> log_sum_exp = std::nullopt);
uint64_t trial_bytes(const AttentionProblem &problem);

} // namespace vkattn
