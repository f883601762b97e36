#include "runtime/ops/attention.hpp"

#include "runtime/ops/attention_split.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/support/error.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace vkattn {

AttentionSources attention_roles() {
    AttentionSources sources{};
    for (const AttentionTensor &tensor : kAttentionTensors) sources[tensor.binding].role = tensor.role;
    return sources;
}

AttentionSources roles_of(const AttentionProblem &problem) {
    AttentionSources sources = attention_roles();
    if (problem.value_in_key) sources[BINDING_VALUE] = sources[BINDING_KEY];
    return sources;
}

AttentionChoice choose_untested(Context &context, AttentionProblem &problem) {
    if (problem.tile.kernel == VKATTN_KERNEL_AUTO) problem.tile = context.tunings().attention.find(class_of(problem));
    return choose_attention(problem, *context.judged_caps());
}

AttentionChoice choose_tested(Context &context, AttentionProblem &problem) {
    for (;;) {
        const std::shared_ptr<const DeviceCaps> known = context.judged_caps();
        AttentionChoice choice = choose_untested(context, problem);
        for (const ShaderUse &use : shaders_of(choice.shape, problem))
            context.verdicts().test_before_use(use.shader, use.paths);
        if (context.judged_caps() == known) return choice; // no new verdict
    }
}

namespace {

AttentionChoice choose(const PlanBuilder &builder, AttentionProblem &problem) {
    return (builder.is_measure() ? choose_untested : choose_tested)(builder.context(), problem);
}

// One problem in as many parts as the device needs to bind it.
AttentionChoice add_parts(PlanBuilder &builder, std::vector<AttentionProblem> parts, const AttentionSources &sources) {
    const uint64_t workspace = builder.reserved_workspace();
    AttentionChoice choice{};
    for (AttentionProblem &part : parts) {
        if (&part != &parts.front()) builder.reuse_workspace(workspace);
        choice = choose(builder, part);
        emit_attention({builder, part, sources, choice.shape});
    }
    choice.reason += text("; in ", parts.size(), " parts, for tensors above maxStorageBufferRange or 2^32 elements");
    return choice;
}

// The problem, and beside it its short sequences where their keys are worth splitting: nothing is written but the parts'
// states before the merge, and so both run side by side.
AttentionChoice add_whole(PlanBuilder &builder, AttentionProblem problem, const AttentionSources &sources) {
    AttentionChoice choice = choose(builder, problem);
    std::optional<AttentionProblem> decodes;
    if (choice.shape.parts == 1 || choice.kernel == &kFlash) decodes = decodes_of(problem);
    AttentionChoice apart{};
    if (decodes.has_value()) apart = choose(builder, *decodes);
    const bool splits = apart.shape.parts > 1;
    if (splits) choice.shape.parameters.fewest_queries = decodes->most_queries + 1;
    emit_attention({builder, problem, sources, choice.shape});
    if (!splits) return choice;
    emit_attention({builder, *decodes, sources, apart.shape});
    choice.reason += text("; sequences of at most ", decodes->q_len, " queries by ", vkattn_kernel_name(apart.name),
                          ", their keys in ", apart.shape.parts, " parts");
    return choice;
}

} // namespace

namespace {

void allow_roles(PlanBuilder &builder, const AttentionProblem &problem, const AttentionSources &sources) {
    for (const AttentionTensor &tensor : kAttentionTensors)
        allow_role(builder, {problem.*tensor.member, sources[tensor.binding]});
}

} // namespace

void add_attention(PlanBuilder &builder, const AttentionProblem &given, const AttentionSources &given_sources) {
    require(given.variant == nullptr || given.variant->owner == &builder.context(),
            "variant: of another context, expected the plan's");
    allow_roles(builder, given, given_sources);
    if (!has_queries(given)) return builder.set_choice(VKATTN_KERNEL_AUTO, "there are no queries");
    const AttentionProblem problem = with_memory(given);
    AttentionSources sources = given_sources;
    if (!has_keys(given)) sources[BINDING_KEY] = sources[BINDING_VALUE] = sources[BINDING_QUERY];
    std::vector<AttentionProblem> parts = split_to_bind(problem, builder.context().caps());
    const AttentionChoice choice =
        parts.size() > 1 ? add_parts(builder, std::move(parts), sources) : add_whole(builder, problem, sources);
    builder.set_choice(choice.name, choice.reason);
}

} // namespace vkattn
