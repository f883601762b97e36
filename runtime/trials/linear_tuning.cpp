#include "runtime/kernels/kernel.hpp"
#include "runtime/trials/tuning.hpp"

#include <array>

namespace vkattn {
namespace {

constexpr std::array kShaders = {LinearShader::kMatrices, LinearShader::kAddresses, LinearShader::kVector,
                                 LinearShader::kTiles};

uint32_t word(LinearShader shader) { return static_cast<uint32_t>(shader); }

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
    return {builder.build(), VKATTN_KERNEL_AUTO, word(choice.shader), words(choice),
            code_of(choice.object, choice.groups, choice.constants)};
}

} // namespace

std::vector<Candidate> tune(Context &context, const LinearOperands &operands) {
    static constexpr uint32_t kRows[] = {1, 2, 4, 8}, kBlocks[] = {1, 2, 4}, kSubgroups[] = {1, 2, 8},
                              kMatrices[] = {1, 2, 4};
    if (is_empty(operands.output.tensor)) return {};
    const LinearProblem problem = problem_of(operands);
    TileSearch<LinearTile> tiles(
        buffers_of(context, operands),
        [&](const LinearTile &tile) { return make_trial(context, operands, divided(problem, tile)); },
        {.shader = word(choose_linear(problem, *context.judged_caps()).shader)});
    for (const LinearShader shader : kShaders) tiles.attempt({.shader = word(shader)});
    for (const LinearShader shader : {LinearShader::kMatrices, LinearShader::kAddresses}) {
        if (!tiles.trials().is_near(word(shader))) continue;
        const auto vary = [&](uint32_t LinearTile::*member, std::span<const uint32_t> values) {
            tiles.vary(word(shader), member, values);
        };
        if (shader == LinearShader::kMatrices) tiles.vary_matrix_shapes(word(shader), context.caps());
        vary(&LinearTile::subgroups, kSubgroups);
        vary(&LinearTile::matrices, kMatrices);
        vary(&LinearTile::rows, kRows);
        vary(&LinearTile::blocks, kBlocks);
    }
    context.tunings().linear.keep(class_of(problem), tiles.choose());
    return std::move(tiles).candidates();
}

} // namespace vkattn
