#include "runtime/kernels/emit.hpp"

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
    AttentionShape::Dispatch dispatch = shape.dispatches[0];
    const uint32_t groups = dispatch.groups[0];
    for (push.first_group = 0; push.first_group < groups; push.first_group += shape.groups_per_dispatch) {
        if (push.first_group > 0) shared.call.builder.barrier();
        dispatch.groups[0] = std::min(shape.groups_per_dispatch, groups - push.first_group);
        Step &step = add_dispatch(shared.call, dispatch, push, shared.parameters, shared.states);
        step.written_binding = shape.parts > 1 ? BINDING_SCORES : BINDING_OUTPUT;
        if (shape.parts > 1) // the merge writes them, and others may meanwhile
            for (uint32_t binding : {BINDING_OUTPUT, BINDING_LOG_SUM_EXP}) step.bound[binding] = {};
        stretches.complete(step);
    }
}

} // namespace

std::array<const vkattn_tensor *, ATTENTION_BINDINGS> tensors_of(const AttentionProblem &problem) {
    std::array<const vkattn_tensor *, ATTENTION_BINDINGS> tensors{};
    tensors[BINDING_QUERY] = &problem.query;
    tensors[BINDING_KEY] = &problem.key;
    tensors[BINDING_VALUE] = &problem.value;
    tensors[BINDING_OUTPUT] = &problem.output;
    tensors[BINDING_LOG_SUM_EXP] = &problem.log_sum_exp;
    tensors[BINDING_ATTN_MASK] = &problem.attn_mask;
    tensors[BINDING_KEY_PADDING_MASK] = &problem.key_padding_mask;
    tensors[BINDING_KEY_LENGTHS] = &problem.key_lengths;
    tensors[BINDING_PAST_LENGTHS] = &problem.past_lengths;
    tensors[BINDING_ALIBI_SLOPES] = &problem.alibi_slopes;
    tensors[BINDING_SINKS] = &problem.sinks;
    tensors[BINDING_ATTN_WEIGHTS] = &problem.attn_weights;
    tensors[BINDING_QK_MATMUL_OUTPUT] = &problem.qk_matmul_output;
    tensors[BINDING_CU_SEQLENS_Q] = &problem.cu_seqlens_q;
    tensors[BINDING_CU_SEQLENS_K] = &problem.cu_seqlens_k;
    tensors[BINDING_BLOCK_TABLE] = &problem.block_table;
    tensors[BINDING_BLOCK_MASK] = &problem.block_mask;
    return tensors;
}

View reserve(PlanBuilder &builder, const vkattn_tensor &tensor) {
    View view{tensor, {}};
    if (present(view)) view.source = builder.reserve_workspace(extent_bytes(tensor));
    return view;
}

Step &add_dispatch(const AttentionCall &call, const AttentionShape::Dispatch &dispatch, const gpu::AttentionPush &push,
                   UniformSlot parameters, const View &scores) {
    Step &step = call.builder.add_step(call.builder.pipeline(dispatch.module, dispatch.constants), push);
    step.groups = dispatch.groups;
    step.uniforms = parameters;
    const auto tensors = tensors_of(call.problem);
    for (uint32_t binding = 0; binding < ATTENTION_BINDINGS; ++binding)
        if (tensors[binding] != nullptr) bind(call.builder, step, binding, {*tensors[binding], call.sources[binding]});
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
    Step &merge = add_dispatch(call, call.shape.dispatches[1], {}, shared.parameters, shared.states);
    merge.written_binding = BINDING_OUTPUT;
}

void emit_split_keys(const AttentionCall &call) {
    KeyStretches nothing;
    emit_split_keys(call, nothing);
}

} // namespace vkattn
