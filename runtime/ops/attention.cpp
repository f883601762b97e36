#include "runtime/ops/attention.hpp"

#include "runtime/attention_planner.hpp"

#include <algorithm>

namespace vkattn {
namespace {

void bind_all(Plan &plan, Step &step, const AttentionProblem &problem, const AttentionSources &sources,
              const View &scores) {
    const vkattn_tensor *tensors[ATTENTION_BINDINGS] = {};
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
    for (uint32_t binding = 0; binding < ATTENTION_BINDINGS; ++binding)
        if (tensors[binding] != nullptr) bind(plan, step, binding, {*tensors[binding], sources[binding]});
    bind(plan, step, BINDING_SCORES, scores);
}

Step &add_dispatch(Plan &plan, Module module, const AttentionChoice::Dispatch &dispatch, const gpu::AttentionPush &push,
                   UniformSlot parameters) {
    Step &step = plan.add_step(plan.context().pipelines().get(module, dispatch.constants), push);
    step.groups = dispatch.groups;
    step.uniforms = parameters;
    return step;
}

void add_flash(Plan &plan, const AttentionProblem &problem, const AttentionSources &sources,
               const AttentionChoice &choice, const View &states) {
    const UniformSlot parameters = plan.keep_uniforms(choice.parameters);
    gpu::AttentionPush push{};
    for (uint64_t first = 0; first < problem.kv_len; first += choice.keys_per_dispatch) {
        if (first > 0) plan.barrier();
        push.first_key = static_cast<uint32_t>(first);
        push.last_key = static_cast<uint32_t>(std::min<uint64_t>(first + choice.keys_per_dispatch, problem.kv_len));
        Step &step = add_dispatch(plan, Module::kFlash, choice.dispatches[0], push, parameters);
        bind_all(plan, step, problem, sources, states);
        step.written_binding = BINDING_OUTPUT;
    }
}

void add_unfused(Plan &plan, const AttentionProblem &problem, const AttentionSources &sources,
                 const AttentionChoice &choice, const View &scores) {
    const UniformSlot parameters = plan.keep_uniforms(choice.parameters);
    const Module modules[] = {Module::kQkScores, Module::kMaskedSoftmax, Module::kWeightedValues};
    for (size_t number = 0; number < std::size(modules); ++number) {
        if (number > 0) plan.barrier();
        Step &step = add_dispatch(plan, modules[number], choice.dispatches[number], gpu::AttentionPush{}, parameters);
        bind_all(plan, step, problem, sources, scores);
        step.written_binding = number == 2 ? BINDING_OUTPUT : BINDING_SCORES;
    }
}

} // namespace

AttentionSources attention_roles() {
    AttentionSources sources{};
    const auto set = [&](uint32_t binding, vkattn_role role) { sources[binding].role = role; };
    set(BINDING_QUERY, VKATTN_ROLE_QUERY);
    set(BINDING_KEY, VKATTN_ROLE_KEY);
    set(BINDING_VALUE, VKATTN_ROLE_VALUE);
    set(BINDING_OUTPUT, VKATTN_ROLE_OUTPUT);
    set(BINDING_LOG_SUM_EXP, VKATTN_ROLE_LOG_SUM_EXP);
    set(BINDING_ATTN_MASK, VKATTN_ROLE_ATTN_MASK);
    set(BINDING_KEY_PADDING_MASK, VKATTN_ROLE_KEY_PADDING_MASK);
    set(BINDING_KEY_LENGTHS, VKATTN_ROLE_KEY_LENGTHS);
    set(BINDING_PAST_LENGTHS, VKATTN_ROLE_PAST_LENGTHS);
    set(BINDING_ALIBI_SLOPES, VKATTN_ROLE_ALIBI_SLOPES);
    set(BINDING_SINKS, VKATTN_ROLE_SINKS);
    set(BINDING_ATTN_WEIGHTS, VKATTN_ROLE_ATTN_WEIGHTS);
    set(BINDING_QK_MATMUL_OUTPUT, VKATTN_ROLE_QK_MATMUL_OUTPUT);
    return sources;
}

void add_attention(Plan &plan, const AttentionProblem &problem, const AttentionSources &sources) {
    const AttentionChoice choice = plan_attention(problem, plan.context().caps());
    plan.set_choice(choice.kernel, choice.reason);
    View scores;
    scores.tensor = choice.scores;
    if (present(scores)) scores.source = plan.reserve_workspace(extent_bytes(scores.tensor));
    (choice.kernel == VKATTN_KERNEL_FLASH ? add_flash : add_unfused)(plan, problem, sources, choice, scores);
}

} // namespace vkattn
