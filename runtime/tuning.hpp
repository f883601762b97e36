#pragma once

#include "runtime/attention_problem.hpp"
#include "runtime/context/context.hpp"

#include <string>
#include <vector>

namespace vkattn {

// A way of computing a problem, tried.
struct Candidate {
    vkattn_kernel kernel;
    std::string tile;    // in words
    double milliseconds; // of one run, a median
    std::string reason;  // why it cannot be used; "" if it can
    bool kept = false;
};

// Times the kernels that serve a problem and, of those that come near the best, other tiles than the planner's, one
// number at a time, on buffers of its own; keeps the fastest for problems of the class. The first candidate is what a
// plan takes untuned; one of them is kept.
std::vector<Candidate> tune(Context &context, const AttentionProblem &problem);

} // namespace vkattn
