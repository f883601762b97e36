#include "runtime/ops/explain.hpp"

#include "runtime/ops/attention.hpp"
#include "runtime/ops/attention_split.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

uint32_t dispatches_of(Context &context, const AttentionProblem &problem, const AttentionShape &shape) {
    PlanBuilder builder(context, PlanBuilder::Purpose::kMeasure);
    const AttentionSources sources = roles_of(problem);
    emit_attention({builder, problem, sources, shape});
    return builder.build()->dispatches();
}

Explanation explain(Context &context, const AttentionProblem &problem, const KernelOption &option) {
    Explanation explanation{name_of(*option.kernel, problem), false, "", 0, option.obstacle};
    if (!option.obstacle.empty()) return explanation;
    explanation.shape = tile_text(*option.kernel, option.shape);
    try {
        explanation.dispatches = dispatches_of(context, problem, option.shape);
    } catch (const Error &error) { // more than the device can bind
        if (error.result() != VKATTN_ERROR_UNSUPPORTED) throw;
        explanation.obstacle = error.what();
    }
    return explanation;
}

} // namespace

std::vector<Explanation> explain_attention(Context &context, const vkattn_attention_desc &desc) {
    const AttentionProblem given = check_attention(desc);
    if (!has_queries(given)) return {};
    AttentionProblem problem = split_to_bind(with_memory(given), context.caps()).front();
    const AttentionKernel *chosen = choose_tested(context, problem).kernel;
    std::vector<Explanation> explanations;
    for (const KernelOption &option : options_for(problem, *context.judged_caps())) {
        explanations.push_back(explain(context, problem, option));
        explanations.back().chosen = option.kernel == chosen;
    }
    return explanations;
}

} // namespace vkattn
