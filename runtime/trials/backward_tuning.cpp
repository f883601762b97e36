#include "runtime/trials/tuning.hpp"

#include <cmath>

namespace vkattn {
namespace {

struct TunedGradient {
    const vkattn_tensor &tensor;
    vkattn_role role;
};

std::array<TunedGradient, 3> gradients_of(const BackwardProblem &problem) {
    return {{{problem.d_query, VKATTN_ROLE_D_QUERY},
             {problem.d_key, VKATTN_ROLE_D_KEY},
             {problem.d_value, VKATTN_ROLE_D_VALUE}}};
}

// About what attention has of trials' numbers, whose products have a variance of 1/9 a dim: to plan attention takes time that nobody has
// allowed.
float usual_log_sum_exp(const AttentionProblem &problem) {
    const float deviation = problem.scale * std::sqrt(static_cast<float>(problem.head_dim)) / 3.0f;
    return std::log(static_cast<float>(problem.kv_len)) + deviation * deviation / 2.0f + 1.0f;
}

TrialMemory memory_of(Context &context, const BackwardProblem &problem) {
    uint64_t bytes = trial_bytes(problem.attention) + extent_bytes(problem.d_output);
    for (const auto &[tensor, role] : gradients_of(problem))
        if (present(tensor)) bytes += extent_bytes(tensor);
    return {bytes, [&] {
                TrialBuffers buffers = trial_buffers(context, problem.attention, usual_log_sum_exp(problem.attention));
                buffers.add_numbers(context, VKATTN_ROLE_D_OUTPUT, problem.d_output);
                for (const auto &[tensor, role] : gradients_of(problem))
                    if (present(tensor)) buffers.add_output(context, role, tensor);
                return buffers;
            }};
}

Trial make_trial(Context &context, const BackwardProblem &problem) {
    const BackwardChoice choice = choose_tested(context, problem);
    PlanBuilder builder(context);
    add_attention_backward(builder, problem);
    return {builder.build(), VKATTN_KERNEL_AUTO, number_of(*choice.kernel), words(choice),
            code_of(choice.shader, choice.own, choice.constants)};
}

} // namespace

std::vector<Candidate> tune(Context &context, const BackwardProblem &problem, TrialTime &time) {
    TileSearch tiles(
        memory_of(context, problem),
        [&](const KernelTile &tile) { return make_trial(context, divided(problem, tile)); },
        {.kernel = number_of(*choose_tested(context, divided(problem, {})).kernel)}, time);
    if (!tiles.has_begun()) return {};
    for (const BackwardKernel *row : backward_kernels()) tiles.attempt({.kernel = number_of(*row)});
    for (const BackwardKernel *row : backward_kernels())
        if (tiles.trials().is_near(number_of(*row))) tiles.vary_knobs(number_of(*row), *row, context.caps());
    return finish(std::move(tiles), context.tunings().backward, class_of(problem));
}

std::vector<Candidate> tune(Context &context, const std::vector<BackwardProblem> &problems) {
    std::vector<Candidate> candidates;
    for (const BackwardProblem &problem : problems) {
        TrialTime any;
        const std::vector<Candidate> own = tune(context, problem, any);
        candidates.insert(candidates.end(), own.begin(), own.end());
    }
    return candidates;
}

} // namespace vkattn
