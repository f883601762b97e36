// linear and linear_transposed: tiles in shared memory, of any problem.
#include "runtime/kernels/linear.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace vkattn {
namespace {

enum TilesPlace : uint32_t { kTilePartsKnob, kTileRowsKnob };
constexpr uint32_t kTileRowsToTry[] = {4, 8};
constexpr Knob kTilesKnobs[] = {{"parts", kPartsToTry},    // of the features
                                {"rows", kTileRowsToTry}}; // of an invocation

constexpr uint32_t kOutputLines = 4; // of an invocation: more have no registers on most GPUs

// How linear and linear_transposed divide their work: rows of an invocation, features in shared memory at a time, parts of all features.
struct TilesDivision {
    uint32_t rows, step, parts;
};

Grid grid_of(const LinearProblem &problem, const TilesDivision &tiles) {
    return grid(problem, kOutputLines * LINEAR_SIDE, tiles.rows * LINEAR_SIDE);
}

uint32_t parts_of(const LinearProblem &problem, const TilesDivision &tiles, uint32_t wanted, const DeviceCaps &caps) {
    const uint32_t bytes = (tiles.rows + kOutputLines) * LINEAR_SIDE * (tiles.step / 4 + 1) * 16;
    return feature_parts(problem, grid_of(problem, tiles), tiles.step, bytes, wanted, caps);
}

// Of cores each of whose SIMDs takes whole workgroups, the division with which the busiest SIMD is done soonest; one workgroup at a time
// would wait as long as two. An invocation of few rows loads more a product, and parts store each tile together: 512 rows of 576 features
// to 576 outputs take vega10 64.1 us in 4 rows and one part, 46.9 in two, 44.3 in four; 512 of 640 to 2,048 135 in 4 rows, 128 in 8
// (modelled).
TilesDivision division_by_simds(const LinearProblem &problem, uint32_t simds_of_core, const DeviceCaps &caps) {
    constexpr uint32_t kStep = 16; // leaves room in shared memory to more workgroups
    constexpr double kCostOfFewRows = 1.06, kCostOfParts = 1.03;
    TilesDivision best{};
    double least = 0;
    for (const uint32_t rows : kTileRowsToTry) {
        for (const uint32_t wanted : kPartsToTry) {
            TilesDivision tiles{rows, kStep, 1};
            tiles.parts = parts_of(problem, tiles, wanted, caps);
            const uint64_t workgroups = workgroup_count(grid_of(problem, tiles)) * tiles.parts;
            const uint64_t simds = uint64_t{simds_of_core} * std::max(cores_of(caps.traits), 1u);
            const auto turns = static_cast<double>(std::max<uint64_t>(divide_up(workgroups, simds), 2));
            const double cost = turns * rows / tiles.parts * (rows == 4 ? kCostOfFewRows : 1) *
                                std::pow(kCostOfParts, std::bit_width(tiles.parts) - 1);
            if (least != 0 && cost >= least) continue;
            least = cost;
            best = tiles;
        }
    }
    return best;
}

TilesDivision division_of(const LinearProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kStep = 32, kStepOfParts = 16;
    const uint32_t wanted_parts = problem.tile.knobs[kTilePartsKnob], wanted_rows = problem.tile.knobs[kTileRowsKnob];
    const uint32_t simds = problem.transposed != 0 ? 0 : linear_simds_of_core(caps);
    TilesDivision tiles{4, kStepOfParts, 1};
    if (simds != 0) tiles = division_by_simds(problem, simds, caps);
    if (wanted_rows != 0) tiles.rows = wanted_rows <= 4 ? 4 : 8;
    if (simds == 0 || wanted_rows != 0 || wanted_parts != 0) tiles.parts = parts_of(problem, tiles, wanted_parts, caps);
    if (simds == 0 && tiles.parts == 1) tiles.step = kStep;
    return tiles;
}

LinearAnswer answer_of_tiles(const LinearProblem &problem, const DeviceCaps &caps) {
    LinearAnswer answer{Rank::kTiles};
    const bool transposed = problem.transposed != 0;
    const Shader &floats = transposed ? shaders::linear_transposed : shaders::linear;
    const Shader &quantised = transposed ? shaders::linear_transposed_quantised : shaders::linear_quantised;
    const TilesDivision tiles = division_of(problem, caps);
    answer.shape = {&variant_of(problem, floats, quantised), constants_of(problem), grid_of(problem, tiles),
                    paths_of(problem)};
    gpu::LinearConstants &constants = answer.shape.constants;
    constants.ALIGNED = aligned_factors(problem);
    if (!transposed && problem.push.in_features % (tiles.step * tiles.parts) == 0) constants.ALIGNED |= ALIGNED_STEPS;
    constants.TILES = kOutputLines;
    constants.ROW_TILES = tiles.rows;
    constants.MATRIX_STEP = tiles.step;
    constants.WORKGROUP_SIZE = tiles.parts * LINEAR_WORKGROUP_SIZE;
    return answer;
}

std::string describe_tiles(const LinearShape &shape) {
    return text(", ", shape.constants.ROW_TILES, " rows of an invocation", words_of_parts(shape));
}

constexpr const Shader *kTilesShaders[] = {&shaders::linear, &shaders::linear_quantised};
constexpr const Shader *kTransposedShaders[] = {&shaders::linear_transposed, &shaders::linear_transposed_quantised};

} // namespace

const LinearKernel kLinearTiles = {.name = "linear",
                                   .shaders = kTilesShaders,
                                   .merit = "tiles in shared memory",
                                   .missing = nothing_missing,
                                   .answer = answer_of_tiles,
                                   .describe = describe_tiles,
                                   .knobs = kTilesKnobs};

const LinearKernel kLinearTransposed = {.name = "linear_transposed",
                                        .shaders = kTransposedShaders,
                                        .merit = "tiles in shared memory, transposed on their way",
                                        .missing = nothing_missing,
                                        .answer = answer_of_tiles,
                                        .describe = describe_tiles,
                                        .knobs = kTilesKnobs,
                                        .trial_rows = 24,
                                        .transposes = true};

} // namespace vkattn
