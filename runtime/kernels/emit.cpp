#include "runtime/kernels/emit.hpp"

#include "runtime/problem/attention_tensors.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// What all dispatches of one call share.
struct Shared {
    const AttentionCall &call;
    UniformSlot parameters;
    View states;
};

void add_stretch(const Shared &shared, gpu::AttentionPush push, KeyStretches &stretches) {
    const AttentionShape &shape = shared.call.shape;
    stretches.prepare(push);
    Step &step = add_dispatch(shared.call, shape.dispatches[0], push, shared.parameters, shared.states);
    if (shape.parts > 1) // the merge writes them, and others may meanwhile
        for (uint32_t binding : {BINDING_OUTPUT, BINDING_LOG_SUM_EXP}) step.bound[binding] = {};
    stretches.complete(step);
}

} // namespace

View reserve(PlanBuilder &builder, const vkattn_tensor &tensor) {
    View view{tensor, {}};
    if (present(view)) view.source = builder.reserve_workspace(extent_bytes(tensor));
    return view;
}

Step &add_dispatch(const AttentionCall &call, const AttentionShape::Dispatch &dispatch, const gpu::AttentionPush &push,
                   UniformSlot parameters, const View &scores) {
    Step &step = call.builder.add_step(dispatch.module, dispatch.constants, push);
    step.groups = dispatch.groups;
    step.flops = dispatch.flops;
    step.uniforms = parameters;
    for (const AttentionTensor &tensor : kAttentionTensors)
        bind(call.builder, step, tensor.binding, {call.problem.*tensor.member, call.sources[tensor.binding]});
    bind(call.builder, step, BINDING_SCORES, scores);
    return step;
}

void emit_split_keys(const AttentionCall &call, KeyStretches &stretches) {
    const Shared shared{call, call.builder.keep_uniforms(call.shape.parameters),
                        reserve(call.builder, call.shape.scores)};
    gpu::AttentionPush push{};
    for (uint64_t first = 0; first < call.problem.kv_len; first += call.shape.keys_per_dispatch) {
        if (first > 0) call.builder.barrier();
        push.first_key = static_cast<uint32_t>(first);
        push.last_key =
            static_cast<uint32_t>(std::min<uint64_t>(first + call.shape.keys_per_dispatch, call.problem.kv_len));
        add_stretch(shared, push, stretches);
    }
    if (call.shape.parts == 1) return;
    call.builder.barrier();
    add_dispatch(call, call.shape.dispatches[1], {}, shared.parameters, shared.states);
}

void emit_split_keys(const AttentionCall &call) {
    KeyStretches nothing;
    emit_split_keys(call, nothing);
}

} // namespace vkattn
