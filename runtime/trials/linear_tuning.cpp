#include "runtime/trials/tuning.hpp"

namespace vkattn {
namespace {

// Every element read as of four dimensions, as heads are.
vkattn_tensor four_dimensional(vkattn_tensor tokens) {
    if (tokens.rank == 4) return tokens;
    std::copy_backward(tokens.shape, tokens.shape + 3, tokens.shape + 4);
    std::copy_backward(tokens.strides, tokens.strides + 3, tokens.strides + 4);
    tokens.shape[0] = 1;
    tokens.rank = 4;
    return tokens;
}

// What a product reads.
std::vector<const View *> inputs_of(const LinearOperands &operands) {
    std::vector<const View *> inputs;
    for (const auto &row : LinearOperands::table())
        if (const View &view = operands.*row.member; row.access == TensorAccess::kRead && present(view))
            inputs.push_back(&view);
    return inputs;
}

TrialMemory memory_of(Context &context, const LinearOperands &operands) {
    uint64_t bytes = extent_bytes(operands.output.tensor);
    for (const View *view : inputs_of(operands)) bytes += extent_bytes(view->tensor);
    return {bytes, [&] {
                TrialBuffers buffers;
                for (const View *view : inputs_of(operands))
                    buffers.add_numbers(context, view->source.role, view->tensor);
                buffers.add_output(context, VKATTN_ROLE_OUTPUT, four_dimensional(operands.output.tensor));
                return buffers;
            }};
}

Trial make_trial(Context &context, const LinearOperands &operands, const LinearProblem &problem) {
    const LinearChoice choice = choose_tested(context, problem);
    PlanBuilder builder(context);
    add_product(builder, problem, operands, choice);
    return {builder.build(), VKATTN_KERNEL_AUTO, number_of(*choice.kernel), words(choice),
            code_of(choice.shader, choice.groups, choice.constants)};
}

} // namespace

std::vector<Candidate> tune(Context &context, const LinearProblem &problem, const LinearOperands &operands,
                            TrialTime &time) {
    if (is_empty(operands.output.tensor)) return {};
    TileSearch tiles(
        memory_of(context, operands),
        [&](const KernelTile &tile) { return make_trial(context, operands, divided(problem, tile)); },
        {.kernel = number_of(*choose_linear(problem, *context.judged_caps()).kernel)}, time);
    if (!tiles.has_begun()) return {};
    for (const LinearKernel *row : linear_kernels()) tiles.attempt({.kernel = number_of(*row)});
    for (const LinearKernel *row : linear_kernels())
        if (tiles.trials().is_near(number_of(*row))) tiles.vary_knobs(number_of(*row), *row, context.caps());
    return finish(std::move(tiles), context.tunings().linear, class_of(problem));
}

std::vector<Candidate> tune(Context &context, const LinearOperands &operands) {
    if (is_empty(operands.output.tensor)) return {};
    TrialTime any;
    return tune(context, problem_of(operands), operands, any);
}

} // namespace vkattn
