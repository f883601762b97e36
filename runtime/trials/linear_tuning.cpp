#include "runtime/trials/tuning.hpp"

namespace vkattn {
namespace {

// Every element read as of four dimensions.
vkattn_tensor four_dimensional(vkattn_tensor tokens) {
    std::copy_backward(tokens.shape, tokens.shape + 3, tokens.shape + 4);
    std::copy_backward(tokens.strides, tokens.strides + 3, tokens.strides + 4);
    tokens.shape[0] = 1;
    tokens.rank = 4;
    return tokens;
}

TrialBuffers buffers_of(Context &context, const LinearOperands &operands) {
    TrialBuffers buffers;
    const LinearEpilogue &epilogue = operands.epilogue;
    for (const View *view :
         {&operands.input, &operands.weight, &epilogue.bias, &epilogue.multiplier, &epilogue.residual})
        if (present(*view)) buffers.add_numbers(context, view->source.role, view->tensor);
    buffers.add_output(context, four_dimensional(operands.output.tensor));
    return buffers;
}

Trial make_trial(Context &context, const LinearOperands &operands, const LinearProblem &problem) {
    const LinearChoice choice = choose_tested(context, problem);
    PlanBuilder builder(context);
    add_product(builder, problem, operands, choice);
    return {builder.build(), VKATTN_KERNEL_AUTO, number_of(*choice.kernel), words(choice),
            code_of(choice.shader, choice.groups, choice.constants)};
}

} // namespace

std::vector<Candidate> tune(Context &context, const LinearOperands &operands) {
    if (is_empty(operands.output.tensor)) return {};
    const LinearProblem problem = problem_of(operands);
    TileSearch tiles(buffers_of(context, operands),
                     [&](const KernelTile &tile) { return make_trial(context, operands, divided(problem, tile)); },
                     {.kernel = number_of(*choose_linear(problem, *context.judged_caps()).kernel)});
    for (const LinearKernel *row : linear_kernels()) tiles.attempt({.kernel = number_of(*row)});
    for (const LinearKernel *row : linear_kernels())
        if (tiles.trials().is_near(number_of(*row))) tiles.vary_knobs(number_of(*row), *row, context.caps());
    context.tunings().linear.keep(class_of(problem), tiles.choose());
    return std::move(tiles).candidates();
}

} // namespace vkattn
