#pragma once

#include "runtime/kernels/kernel.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/plan/builder.hpp"

namespace vkattn {

// Where the tensors of an attention problem live, by binding number (BINDING_QUERY ... in shaders/interface/).
using AttentionSources = std::array<Source, ATTENTION_BINDINGS>;

// A problem and the shape chosen for it, on its way into a plan.
struct AttentionCall {
    PlanBuilder &builder;
    const AttentionProblem &problem;
    const AttentionSources &sources;
    const AttentionShape &shape;
};

// Adds a step that binds every tensor of the problem.
Step &add_dispatch(const AttentionCall &call, const AttentionShape::Dispatch &dispatch, const gpu::AttentionPush &push,
                   UniformSlot parameters, const View &scores);

// The steps of the shape.
void emit_attention(const AttentionCall &call);

} // namespace vkattn
