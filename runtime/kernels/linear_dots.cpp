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

enum Place : uint32_t { kOutputLinesKnob, kRowLinesKnob, kFeaturePartsKnob };
constexpr uint32_t kLinesToTry[] = {4, 8};
constexpr Knob kKnobs[] = {{"outputs", kLinesToTry},
                           {"rows", kLinesToTry},   // of an invocation
                           {"parts", kPartsToTry}}; // of the features

// Rows and outputs of an invocation.
struct Lines {
    uint32_t outputs, rows;
};

Grid grid_of(const LinearProblem &problem, const Lines &lines) {
    return grid(problem, lines.outputs * LINEAR_SIDE, lines.rows * LINEAR_SIDE);
}

// The most that leave a core enough workgroups to wait for one another's loads: 512 rows of 576 features to 576 outputs take navi21
// 39.0 us in 8 x 8 (72 workgroups), 26.9 in 4 x 8, 21.3 in 4 x 4; to 3,072 outputs 103, 94 and 92 (modelled).
Lines lines_of_rule(const LinearProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kFewRows = 4 * LINEAR_SIDE;
    constexpr struct {
        Lines lines;
        uint32_t workgroups_of_core;
    } kChoices[] = {{{8, 8}, 12}, {{4, 8}, 4}, {{8, 4}, 4}};
    for (const auto &[lines, fewest] : kChoices)
        if ((lines.rows == 4) == (problem.push.rows <= kFewRows) &&
            workgroup_count(grid_of(problem, lines)) >= uint64_t{fewest} * cores_of(caps.traits))
            return lines;
    return {4, 4};
}

Lines lines_of(const LinearProblem &problem, const DeviceCaps &caps) {
    const auto tuned = [&](Place place, uint32_t of_rule) {
        const uint32_t wanted = problem.tile.knobs[place];
        return wanted == 0 ? of_rule : wanted <= 4 ? 4 : 8;
    };
    const Lines rule = lines_of_rule(problem, caps);
    return {tuned(kOutputLinesKnob, rule.outputs), tuned(kRowLinesKnob, rule.rows)};
}

LinearAnswer answer(const LinearProblem &problem, const DeviceCaps &caps) {
    const uint32_t aligned = aligned_factors(problem);
    LinearAnswer answer{Rank::kTilesOfPairs, obstacle(problem, aligned)};
    if (!answer.obstacle.empty()) return answer;
    const Lines lines = lines_of(problem, caps);
    answer.shape = {&variant_of(problem, shaders::linear_dots, shaders::linear_dots_quantised), constants_of(problem),
                    grid_of(problem, lines), paths_of(problem)};
    const uint32_t bytes = (lines.outputs + lines.rows) * LINEAR_SIDE * (LINEAR_DOTS_STEP / 8 + 1) * 16;
    const uint32_t parts = feature_parts(problem, answer.shape.groups, LINEAR_DOTS_STEP, bytes,
                                         problem.tile.knobs[kFeaturePartsKnob], caps);
    gpu::LinearConstants &constants = answer.shape.constants;
    constants.TILES = lines.outputs;
    constants.ROW_TILES = lines.rows;
    constants.WORKGROUP_SIZE = parts * LINEAR_WORKGROUP_SIZE;
    constants.ALIGNED = aligned | (problem.push.in_features % (parts * LINEAR_DOTS_STEP) == 0 ? ALIGNED_STEPS : 0);
    return answer;
}

std::string describe(const LinearShape &shape) {
    return text(", ", shape.constants.TILES, " x ", shape.constants.ROW_TILES, " of an invocation",
                words_of_parts(shape));
}

constexpr const Shader *kShaders[] = {&shaders::linear_dots, &shaders::linear_dots_quantised};

} // namespace

const LinearKernel kLinearDots = {.name = "linear_dots",
                                  .shaders = kShaders,
                                  .merit = "tiles in shared memory, products of f16 in pairs",
                                  .missing = missing,
                                  .answer = answer,
                                  .describe = describe,
                                  .knobs = kKnobs};

} // namespace vkattn
