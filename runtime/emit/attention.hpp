#pragma once

#include "runtime/kernels/kernel.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/plan/builder.hpp"

#include <span>

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

// Fails where a variant is of another context than the plan's; nullptr: none.
void require_own(const PlanBuilder &builder, vkattn_variant variant);

// The shader with the functions of a variant in it, which the plan keeps; nullptr: none. A measure compiles nothing.
const Shader &shader_of(PlanBuilder &builder, vkattn_variant variant, const Shader &shader);

// Adds a step that binds every tensor of the problem.
Step &add_dispatch(const AttentionCall &call, const AttentionShape::Dispatch &dispatch, const gpu::AttentionPush &push,
                   UniformSlot parameters, const View &scores);

// The steps of the shape.
void emit_attention(const AttentionCall &call);

// The steps of shapes that attend other sequences of the same packed batch: what goes through their keys has no barriers between, and
// at most one of them has its keys in one part. The last one's states are merged first. No lists of keys.
void emit_side_by_side(std::span<const AttentionCall> calls);

} // namespace vkattn
