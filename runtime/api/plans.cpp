// The C entry points of plans and programs, and of what is planned: operators, their tuning, variants of attention.
#include "runtime/api/handles.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/index.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/prewarm.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/tensor.hpp"

#include <algorithm>

using namespace vkattn;

namespace {

std::span<const vkattn_binding> given_bindings(const vkattn_binding *bindings, uint32_t count) {
    require(bindings != nullptr || count == 0, "bindings: NULL, expected ", count, " entries");
    return {bindings, count};
}

// What tells a description from others of its type, as far as plans are concerned. A plan keeps its variant, so that no other
// one has its address.
template <class Desc>
std::string key_of(const Desc &desc) {
    return {reinterpret_cast<const char *>(&desc), sizeof desc};
}

std::string key_of(vkattn_attention_desc desc) {
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (present(desc.*tensor.given)) desc.*tensor.given = normalised(desc.*tensor.given, tensor.name);
    const void *variant = desc.variant != nullptr ? desc.variant->variant.get() : nullptr;
    desc.variant = nullptr;
    std::string key(reinterpret_cast<const char *>(&desc), sizeof desc);
    return key.append(reinterpret_cast<const char *>(&variant), sizeof variant);
}

std::string key_of(vkattn_attention_backward_desc desc) {
    std::string key = desc.attention != nullptr ? key_of(sized(desc.attention, "attention")) : std::string();
    desc.attention = nullptr;
    return key.append(reinterpret_cast<const char *>(&desc), sizeof desc);
}

std::string key_of(vkattn_rotary_embedding_desc desc) {
    const vkattn_rope_scaling &scaling = desc.rope_scaling;
    std::string key;
    const uint32_t rank = std::min(desc.input.rank, uint32_t{4});
    const uint64_t dims = desc.rotary_dim != 0 ? desc.rotary_dim : rank > 0 ? desc.input.shape[rank - 1] : 0;
    const bool has_factors = scaling.kind == VKATTN_ROPE_LONGROPE && scaling.factors != nullptr;
    if (has_factors && scaling.factor_count == dims / 2) // others are refused before they are read
        key.assign(reinterpret_cast<const char *>(scaling.factors), scaling.factor_count * sizeof *scaling.factors);
    desc.rope_scaling.factors = nullptr;
    return key.append(reinterpret_cast<const char *>(&desc), sizeof desc);
}

// The same, where the context may have such a plan already. operation: which one is planned.
template <class Desc, class Build>
vkattn_result share_plan(vkattn_context context, const char *operation, const Desc *desc, vkattn_plan *plan,
                         Build &&build) {
    if (context == nullptr || !context->state->plans.keeps_any()) return create_plan(context, desc, plan, build);
    return create(plan, "plan", [&] {
        const Desc given = sized(desc, "desc");
        const auto make = [&] { return built(context->context, given, build); };
        return std::make_unique<vkattn_plan_opaque>(context->state,
                                                    context->state->plans.get(operation + key_of(given), make));
    });
}

// Tunes the problem that check(desc) makes of a description.
template <class Desc, class Check>
vkattn_result tune_with(vkattn_context context, const Desc *desc, vkattn_list *candidates, Check &&check) {
    if (candidates != nullptr) *candidates = nullptr;
    return guard([&] {
        require_given(context, "context");
        std::vector<Candidate> tried = tune(context->context, check(sized(desc, "desc")));
        context->state->plans.clear(); // plans from now on take what was found
        if (candidates != nullptr) *candidates = new ListOf<Candidate>(std::move(tried));
    });
}

// Builds what the plans need that build(PlanBuilder &, const Desc &) makes of descriptions, each as large as the first says.
template <class Desc, class Build>
vkattn_result prewarm_plans(vkattn_context context, const Desc *descs, uint32_t count, uint32_t threads,
                            Build &&build) {
    return guard([&] {
        require_given(context, "context");
        require(descs != nullptr || count == 0, "descs: NULL, expected ", count, " descriptions");
        std::vector<Desc> given;
        const auto *at = reinterpret_cast<const std::byte *>(descs);
        for (uint32_t i = 0; i < count; ++i, at += descs->struct_size)
            given.push_back(sized(reinterpret_cast<const Desc *>(at), "descs"));
        prewarm(
            context->context, count, [&](PlanBuilder &builder, size_t i) { build(builder, given[i]); }, threads);
    });
}

vkattn_report report_of(const Plan &plan) {
    return {.kernel = plan.kernel(),
            .kernel_name = vkattn_kernel_name(plan.kernel()),
            .reason = plan.reason().c_str(),
            .dispatches = plan.dispatches()};
}

} // namespace

vkattn_result vkattn_plan_requirements(vkattn_plan plan, vkattn_requirements *requirements) {
    return guard([&] {
        require_given(plan, "plan");
        fill_in(requirements, plan->plan->requirements(), "requirements");
    });
}

vkattn_result vkattn_plan_get_report(vkattn_plan plan, vkattn_report *report) {
    return guard([&] {
        require_given(plan, "plan");
        fill_in(report, report_of(*plan->plan), "report");
    });
}

vkattn_result vkattn_plan_bindings(vkattn_plan plan, vkattn_list *bindings) {
    return list(bindings, "bindings", [&] {
        require_given(plan, "plan");
        return plan->plan->bindings();
    });
}

vkattn_result vkattn_plan_shaders(vkattn_plan plan, vkattn_list *shaders) {
    return create(shaders, "shaders", [&] {
        require_given(plan, "plan");
        const InUse use(plan->usage);
        const std::lock_guard lock(plan->mutex);
        if (plan->shaders == nullptr) plan->shaders = std::make_shared<const ShaderReports>(*plan->plan);
        return std::make_unique<ListOfShaders>(plan->shaders);
    });
}

vkattn_result vkattn_record(vkattn_plan plan, const vkattn_record_info *info) {
    return guard([&] {
        require_given(plan, "plan");
        const vkattn_record_info given = sized(info, "info");
        const InUse use(plan->usage);
        plan->plan->record(given);
    });
}

vkattn_result vkattn_run(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count, double *gpu_ms) {
    return guard([&] {
        require_given(plan, "plan");
        const std::span<const vkattn_binding> given = given_bindings(bindings, binding_count);
        const InUse use(plan->usage);
        plan->plan->run(given, gpu_ms);
    });
}

vkattn_result vkattn_submit(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                            const vkattn_sync *sync) {
    return guard([&] {
        require_given(plan, "plan");
        const std::span<const vkattn_binding> given = given_bindings(bindings, binding_count);
        const InUse use(plan->usage);
        plan->plan->submit(given, sync);
    });
}

void vkattn_plan_destroy(vkattn_plan plan) { destroy(plan); }

vkattn_result vkattn_program_create(vkattn_context context, const vkattn_program_info *info, vkattn_program *program) {
    return create(program, "program", [&] {
        require_given(context, "context");
        const vkattn_program_info given = sized(info, "info");
        require_given(given.plans, "plans");
        require(given.plan_count > 0, "plan_count: 0, expected at least 1");
        std::vector<BoundPlan> plans;
        for (const vkattn_bound_plan &bound : std::span(given.plans, given.plan_count)) {
            const std::string name = text("plans[", plans.size(), "]");
            require(bound.plan != nullptr, name, ": plan is NULL, expected a plan");
            require(bound.bindings != nullptr || bound.binding_count == 0, name, ": bindings: NULL, expected ",
                    bound.binding_count, " entries");
            const InUse use(bound.plan->usage);
            plans.push_back({bound.plan->plan, {bound.bindings, bound.binding_count}});
        }
        return std::make_unique<vkattn_program_opaque>(context->state, plans);
    });
}

vkattn_result vkattn_program_get_report(vkattn_program program, vkattn_program_report *report) {
    return guard([&] {
        require_given(program, "program");
        fill_in(report, program->program.report(), "report");
    });
}

vkattn_result vkattn_program_run(vkattn_program program, double *gpu_ms) {
    return guard([&] {
        require_given(program, "program");
        const InUse use(program->usage);
        program->program.run(gpu_ms);
    });
}

vkattn_result vkattn_program_submit(vkattn_program program, const vkattn_sync *sync) {
    return guard([&] {
        require_given(program, "program");
        const InUse use(program->usage);
        program->program.submit(sync);
    });
}

void vkattn_program_destroy(vkattn_program program) { destroy(program); }

#define VKATTN_PLAN(name)                                                                                              \
    vkattn_result vkattn_##name##_plan(vkattn_context context, const vkattn_##name##_desc *desc, vkattn_plan *plan) {  \
        return share_plan(context, #name, desc, plan, plan_##name);                                                    \
    }
VKATTN_OPERATORS(VKATTN_PLAN)

vkattn_result vkattn_attention_measure(vkattn_context context, const vkattn_attention_desc *desc,
                                       vkattn_measure *measure) {
    return measure_plan(context, desc, measure, plan_attention);
}

vkattn_result vkattn_attention_backward_measure(vkattn_context context, const vkattn_attention_backward_desc *desc,
                                                vkattn_measure *measure) {
    return measure_plan(context, desc, measure, plan_attention_backward);
}

vkattn_result vkattn_explain(vkattn_context context, const vkattn_attention_desc *desc, vkattn_list *options) {
    return list(options, "options", [&] {
        require_given(context, "context");
        return explain_attention(context->context, sized(desc, "desc"));
    });
}

vkattn_result vkattn_prewarm(vkattn_context context, const vkattn_attention_desc *descs, uint32_t count,
                             uint32_t threads) {
    return prewarm_plans(context, descs, count, threads, plan_attention);
}

vkattn_result vkattn_prewarm_linear(vkattn_context context, const vkattn_linear_desc *descs, uint32_t count,
                                    uint32_t threads) {
    return prewarm_plans(context, descs, count, threads, plan_linear);
}

vkattn_result vkattn_tune(vkattn_context context, const vkattn_attention_desc *desc, vkattn_list *candidates) {
    return tune_with(context, desc, candidates,
                     [](const vkattn_attention_desc &given) { return check_attention(given); });
}

vkattn_result vkattn_tune_attention_backward(vkattn_context context, const vkattn_attention_backward_desc *desc,
                                             vkattn_list *candidates) {
    return tune_with(context, desc, candidates, backward_problems);
}

vkattn_result vkattn_variant_create(vkattn_context context, const vkattn_variant_info *info, vkattn_variant *variant) {
    return create(variant, "variant", [&] {
        require_given(context, "context");
        return std::make_unique<vkattn_variant_opaque>(context->state, &context->context,
                                                       context->context.variants().get(sized(info, "info")));
    });
}

vkattn_result vkattn_block_mask_plan(vkattn_context context, const vkattn_attention_desc *desc, vkattn_plan *plan) {
    return create_plan(context, desc, plan, plan_block_mask);
}

void vkattn_variant_destroy(vkattn_variant variant) { delete variant; }

vkattn_result vkattn_tune_linear(vkattn_context context, const vkattn_linear_desc *desc, vkattn_list *candidates) {
    return tune_with(context, desc, candidates, [](const vkattn_linear_desc &given) {
        require(!present(given.norm_weight),
                "norm_weight: given, expected none: vkattn_tune_linear measures products alone");
        return check_linear(given);
    });
}

vkattn_result vkattn_linear_measure(vkattn_context context, const vkattn_linear_desc *desc, vkattn_measure *measure) {
    return measure_plan(context, desc, measure, plan_linear);
}
