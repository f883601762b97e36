#include "runtime/ops/attention.hpp"

#include "runtime/attention_planner.hpp"

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

Step &add_dispatch(Plan &plan, Module module, const AttentionChoice &choice, size_t number) {
    const AttentionChoice::Dispatch &dispatch = choice.dispatches[number];
    Step &step = plan.add_step(plan.context().pipelines().get(module, dispatch.constants), choice.push);
    step.groups = dispatch.groups;
    return step;
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
    if (choice.kernel == VKATTN_KERNEL_FLASH) {
        Step &step = add_dispatch(plan, Module::kFlash, choice, 0);
        bind_all(plan, step, problem, sources, {});
        step.written_binding = BINDING_OUTPUT;
        return;
    }
    View scores;
    scores.tensor = contiguous(VKATTN_TYPE_F32, {problem.batch, problem.query_heads, problem.q_len, problem.kv_len});
    scores.source = plan.reserve_workspace(choice.scores_bytes);
    const Module modules[] = {Module::kQkScores, Module::kMaskedSoftmax, Module::kWeightedValues};
    for (size_t number = 0; number < std::size(modules); ++number) {
        if (number > 0) plan.barrier();
        Step &step = add_dispatch(plan, modules[number], choice, number);
        bind_all(plan, step, problem, sources, scores);
        step.written_binding = number == 2 ? BINDING_OUTPUT : BINDING_SCORES;
    }
}

} // namespace vkattn
