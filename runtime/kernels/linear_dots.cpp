// linear_dots: tiles in shared memory, whose products are taken in pairs.
#include "runtime/kernels/linear.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

const char *missing(const DeviceCaps &caps) { return obstacle_of_dots(caps, shaders::linear_dots); }

std::string obstacle(const LinearProblem &problem, uint32_t aligned) {
    if (problem.input.type != VKATTN_TYPE_F16)
        return text("input is ", type_name(problem.input.type), ", expected f16");
    if (problem.weight.type != VKATTN_TYPE_F16 && !is_quantised(problem.weight.type))
        return text("weight is ", type_name(problem.weight.type), ", expected f16 or a quantised type");
    if ((aligned & ALIGNED_INPUT) == 0) return "rows of input do not begin at multiples of 16 bytes";
    if (!is_quantised(problem.weight.type) && (aligned & ALIGNED_WEIGHT) == 0)
        return "rows of weight do not begin at multiples of 16 bytes";
    return "";
}

LinearAnswer answer(const LinearProblem &problem, const DeviceCaps &) {
    const uint32_t aligned = aligned_factors(problem);
    LinearAnswer answer{Rank::kTilesOfPairs, obstacle(problem, aligned)};
    if (!answer.obstacle.empty()) return answer;
    answer.shape = {&variant_of(problem, shaders::linear_dots, shaders::linear_dots_quantised), constants_of(problem),
                    grid(problem, LINEAR_DOTS_TILE, LINEAR_DOTS_TILE), paths_of(problem)};
    answer.shape.constants.ALIGNED = aligned | (problem.push.in_features % LINEAR_DOTS_STEP == 0 ? ALIGNED_STEPS : 0);
    return answer;
}

constexpr const Shader *kShaders[] = {&shaders::linear_dots, &shaders::linear_dots_quantised};

} // namespace

const LinearKernel kLinearDots = {.name = "linear_dots",
                                  .shaders = kShaders,
                                  .merit = "tiles in shared memory, products of f16 in pairs",
                                  .missing = missing,
                                  .answer = answer,
                                  .describe = describe_nothing};

} // namespace vkattn
