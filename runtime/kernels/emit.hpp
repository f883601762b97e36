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

// A tensor of the workspace; absent where it is.
View reserve(PlanBuilder &builder, const vkattn_tensor &tensor);

// Adds a step that binds every tensor of the problem.
Step &add_dispatch(const AttentionCall &call, const AttentionShape::Dispatch &dispatch, const gpu::AttentionPush &push,
                   UniformSlot parameters, const View &scores);

// A step for each stretch of keys_per_dispatch keys, one after the other; then the merge of the parts.
void emit_split_keys(const AttentionCall &call);

// The same, where a kernel prepares each stretch and adds to its dispatches.
class KeyStretches {
  public:
    virtual ~KeyStretches() = default;
    virtual void prepare(gpu::AttentionPush &) {}
    virtual void complete(Step &) {}
};
void emit_split_keys(const AttentionCall &call, KeyStretches &stretches);

} // namespace vkattn
