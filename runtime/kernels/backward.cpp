#include "runtime/kernels/backward.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr const BackwardKernel *kKernels[] = {&kBackwardAddresses, &kBackwardCoopmat, &kBackwardTiles};

} // namespace

BackwardClass class_of(const BackwardProblem &problem) {
    AttentionClass attention = class_of(problem.attention);
    attention.kernel = VKATTN_KERNEL_AUTO; // that of the forward pass is nothing to gradients
    return {attention,
            static_cast<uint32_t>(problem.sums),
            format_of(problem.d_output),
            format_of(problem.d_query),
            format_of(problem.d_key),
            format_of(problem.d_value)};
}

std::span<const BackwardKernel *const> backward_kernels() { return kKernels; }

uint32_t number_of(const BackwardKernel &kernel) {
    return 1 + static_cast<uint32_t>(std::ranges::find(kKernels, &kernel) - std::begin(kKernels));
}

BackwardChoice choose_backward(const BackwardProblem &problem, const DeviceCaps &caps,
                               const std::function<bool(const Shader &)> &may_take) {
    const uint32_t tuned = problem.tile.kernel;
    if (tuned != 0 && tuned <= std::size(kKernels) && !problem.attention.batch_invariant) {
        const BackwardAnswer answer = kKernels[tuned - 1]->answer(problem, caps);
        if (answer.obstacle.empty() && may_take(*answer.shape.shader)) return {answer.shape, kKernels[tuned - 1], true};
    }
    BackwardProblem untuned = problem;
    untuned.tile = {};
    std::vector<std::pair<BackwardAnswer, const BackwardKernel *>> answers;
    for (const BackwardKernel *kernel : kKernels) answers.emplace_back(kernel->answer(untuned, caps), kernel);
    std::ranges::stable_sort(answers, std::greater(), [](const auto &each) { return each.first.rank; });
    for (const auto &[answer, kernel] : answers)
        if (answer.obstacle.empty() && (kernel == &kBackwardTiles || may_take(*answer.shape.shader)))
            return {answer.shape, kernel, false};
    return {kBackwardTiles.answer(untuned, caps).shape, &kBackwardTiles, false};
}

std::string words(const BackwardChoice &choice) {
    return text(choice.shader->name, ", ", choice.kernel->describe(choice));
}

std::string words_of_tile(const BackwardShape &shape) {
    return text(shape.own, " of a workgroup, ", shape.passing, " pass by at a time");
}

} // namespace vkattn
