// linear_coopmat: tiles on matrix units.
#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/linear.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace vkattn {
namespace {

// Rows up to which linear_vector, which reads each weight once, serves instead.
constexpr uint32_t kFewRows = LINEAR_VECTOR_ROWS;

// The rule's and the most subgroups of a workgroup, the most matrices of a subgroup either way.
constexpr uint32_t kSubgroups = 4, kMostSubgroups = 8, kMostMatrices = 4;

constexpr uint32_t kMostRowsOfReading = 32; // of a tile whose time goes into reading the weight

enum Place : uint32_t { kSubgroupsKnob, kMatricesKnob };
constexpr uint32_t kSubgroupsToTry[] = {1, 2, 8}, kMatricesToTry[] = {1, 2, 4};
constexpr Knob kKnobs[] = {{"subgroups", kSubgroupsToTry}, // of a workgroup
                           {"matrices", kMatricesToTry}};  // of a subgroup, along the rows and along the outputs

// How a workgroup divides its tile.
struct LinearMatrixTile {
    vkattn_matrix_shape shape;
    uint32_t subgroup_size;
    uint32_t row_subgroups, output_subgroups;
    uint32_t row_matrices, output_matrices; // of a subgroup
    uint32_t step;                          // input features in shared memory at a time
};

uint32_t tile_rows(const LinearMatrixTile &tile) { return tile.row_subgroups * tile.row_matrices * tile.shape.n; }
uint32_t outputs_of(const LinearMatrixTile &tile) {
    return tile.output_subgroups * tile.output_matrices * tile.shape.m;
}

// Shared memory that linear_coopmat.comp declares.
uint64_t shared_bytes(const LinearMatrixTile &tile) {
    const uint64_t inputs = uint64_t{tile_rows(tile) + outputs_of(tile)} * (tile.step / 8 + 1);
    const uint64_t strips =
        uint64_t{tile.row_subgroups} * tile.output_subgroups * tile.shape.n * (tile.shape.m / 4 + 1);
    return 16 * std::max(inputs, strips);
}

constexpr uint32_t kStep = 32, kLongStep = 64;

// Elements of a quantised weight's row, two eights of each of which lie in the same bytes.
uint32_t elements_of_eights(vkattn_type weight) {
    switch (weight) {
    case VKATTN_TYPE_Q4_K:
    case VKATTN_TYPE_Q5_K:
        return 64;
    case VKATTN_TYPE_Q6_K:
        return 128;
    default:
        return kStep;
    }
}

// They are of one step; of a transposed weight of one tile, and a longer step gives every invocation some. Of 512 rows (1024 to 1024
// features) d_input takes 21.4 µs in place of 23.5 on navi31, modelled.
uint32_t fewest_features(const LinearProblem &problem, const DeviceCaps &caps) {
    if (problem.transposed == 0) return elements_of_eights(problem.weight.type);
    return is_quantised(problem.weight.type) || has_room_for_long_steps(caps) ? kLongStep : kStep;
}

// Makes the tile as wide as they are.
void take_whole_eights(LinearMatrixTile &tile, const LinearProblem &problem) {
    if (problem.transposed == 0 || !is_quantised(problem.weight.type)) return;
    while (outputs_of(tile) % elements_of_eights(problem.weight.type) != 0) {
        if (tile.row_subgroups > 1) {
            tile.row_subgroups /= 2;
            tile.output_subgroups *= 2;
        } else {
            tile.output_matrices *= 2;
        }
    }
}

LinearMatrixTile tile_of(const vkattn_matrix_shape &shape, uint32_t subgroup_size, uint32_t subgroups,
                         uint32_t matrices, uint32_t step) {
    const uint32_t row_subgroups = subgroups > 1 ? subgroups / 2 : 1;
    return {shape, subgroup_size, row_subgroups, subgroups / row_subgroups, matrices, matrices, step};
}

// The longest that the device has room for, or one of as few that is no longer than it needs to be.
uint32_t long_step(const LinearProblem &problem, const DeviceCaps &caps) {
    const uint32_t features = problem.push.in_features, unit = fewest_features(problem, caps);
    const uint32_t steps = tiles(features, longest_matrix_step(caps));
    return std::max(tiles(tiles(features, steps), unit), 1u) * unit;
}

// Rows of matrices that would be empty are left out. Then the time goes into reading the weight: more of it is on its way at
// a time, and more workgroups share it.
void drop_empty_rows(LinearMatrixTile &tile, const LinearProblem &problem, const DeviceCaps &caps) {
    const uint32_t rows = problem.push.rows;
    while (tile.row_subgroups > 1 && tile_rows(tile) / 2 >= rows) {
        tile.row_subgroups /= 2;
        tile.output_subgroups *= 2;
    }
    while (tile.row_matrices > 1 && tile_rows(tile) / 2 >= rows) tile.row_matrices /= 2;
    if (tile_rows(tile) > kMostRowsOfReading) return;
    tile.output_matrices = 1;
    tile.step = long_step(problem, caps);
}

uint64_t workgroups(const LinearMatrixTile &tile, const LinearProblem &problem) {
    const Grid groups = grid(problem, outputs_of(tile), tile_rows(tile));
    return uint64_t{groups[0]} * groups[1] * groups[2];
}

// Where each workgroup has a core of its own, the time goes into waiting for the next features: more of them come at a time, and
// where cores are still idle smaller tiles share the work. Of 64 rows (1024 to 1024 features) 6.2 µs in place of 16.8 on navi31, of
// 256 rows 13.3, modelled.
void spread_few(LinearMatrixTile &tile, const LinearProblem &problem, const DeviceCaps &caps) {
    const uint64_t cores = cores_of(caps.traits);
    if (workgroups(tile, problem) > cores) return;
    LinearMatrixTile small = tile;
    small.row_matrices = small.output_matrices = 1;
    small.step = long_step(problem, caps);
    if (workgroups(small, problem) <= 2 * cores)
        tile = small;
    else if (has_room_for_long_steps(caps))
        tile.step = std::max(tile.step, kLongStep);
}

// Rows of a tile share what it loads and decodes of the weight: it has more of them where enough workgroups are left. Of 512 rows
// (4096 to 4096 features) f16 203.9 µs in place of 215.7 on navi31, q4_K 239 in place of 269, modelled.
void share_weights(LinearMatrixTile &tile, const LinearProblem &problem, const DeviceCaps &caps) {
    if (!has_room_for_long_steps(caps) || tile.step > kLongStep || tile.output_matrices != 2) return;
    LinearMatrixTile tall = tile;
    tall.row_matrices = 2 * tile.row_matrices;
    const uint32_t rows = problem.push.rows;
    const bool empty_rows = 2 * tiles(rows, tile_rows(tall)) > tiles(rows, tile_rows(tile));
    if (tall.row_matrices <= kMostMatrices && !empty_rows && workgroups(tall, problem) >= 2 * cores_of(caps.traits))
        tile = tall;
}

// Of a workgroup in subgroups of such a size.
uint32_t most_subgroups(uint32_t tuned, uint32_t subgroup_size, const DeviceCaps &caps) {
    const uint32_t wanted = tuned == 0 ? kSubgroups : std::min(tuned, kMostSubgroups);
    const uint32_t told = caps.max_workgroup_subgroups == 0 ? wanted : caps.max_workgroup_subgroups;
    return std::min({wanted, told, caps.max_workgroup_invocations / subgroup_size});
}

// f16 or bf16, with weights of the same type; f16 with quantised ones as well, which become f16.
MatrixUse matrices_of(const LinearProblem &problem) {
    const vkattn_type type = problem.input.type;
    const bool transposed = problem.transposed != 0;
    const Shader &halves = transposed ? variant_of(problem, shaders::linear_transposed_coopmat,
                                                   shaders::linear_transposed_coopmat_quantised)
                                      : variant_of(problem, shaders::linear_coopmat, shaders::linear_coopmat_quantised);
    const Shader &bf16 = transposed ? shaders::linear_transposed_coopmat_bf16 : shaders::linear_coopmat_bf16;
    return {type == VKATTN_TYPE_F16 ? &halves : &bf16, type, paths_of(problem)};
}

// What tuning found or the rule's, less where shared memory ends; the largest shape for which that suffices.
std::optional<LinearMatrixTile> tile_of(const LinearProblem &problem, const MatrixUse &use, const DeviceCaps &caps) {
    const KernelTile &tuned = problem.tile;
    std::vector<uint32_t> indices = usable_shapes(caps, use);
    const auto given = std::ranges::find(indices, tuned.matrix_shape - 1);
    if (given != indices.end()) std::rotate(indices.begin(), given, given + 1);
    const uint32_t rule = caps.traits.unroll_matrices != 0 ? 2 : 1;
    const uint32_t tuned_matrices = tuned.knobs[kMatricesKnob];
    const uint32_t matrices = tuned_matrices == 0 ? rule : std::bit_floor(std::min(tuned_matrices, kMostMatrices));
    for (const uint32_t index : indices) {
        const vkattn_matrix_shape &shape = caps.matrix_shapes[index];
        if (shape.k > kStep) continue;
        const uint32_t size = matrix_layout(caps, shape, 1).subgroup_size;
        for (uint32_t subgroups = std::bit_floor(most_subgroups(tuned.knobs[kSubgroupsKnob], size, caps));
             subgroups > 0; subgroups /= 2) {
            LinearMatrixTile tile = tile_of(shape, size, subgroups, matrices, fewest_features(problem, caps));
            // loads of so long a step leave no registers for the sums of several
            if (tile.step > kLongStep && matrices_beside_loads(caps) == 1) tile.row_matrices = tile.output_matrices = 1;
            if (tuned_matrices == 0) {
                drop_empty_rows(tile, problem, caps);
                spread_few(tile, problem, caps);
                share_weights(tile, problem, caps);
            }
            take_whole_eights(tile, problem);
            if (shared_bytes(tile) <= caps.max_shared_memory_bytes) return tile;
        }
    }
    return std::nullopt;
}

const char *missing(const DeviceCaps &caps) {
    if (const char *arrays = obstacle_of_arrays(caps); *arrays != '\0') return arrays;
    if (!is_built(shaders::linear_coopmat)) return shaders::linear_coopmat.code.why_empty();
    return obstacle_of_matrices(caps);
}

// CPU drivers, which take half a minute to compile it, multiply turned copies.
const char *missing_of_transposed(const DeviceCaps &caps) {
    if (caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) return "a CPU driver, for which factors are copied";
    return missing(caps);
}

std::string obstacle(const LinearProblem &problem, const MatrixUse &use, const DeviceCaps &caps) {
    if (use.type != VKATTN_TYPE_F16 && use.type != VKATTN_TYPE_BF16)
        return text("input is ", type_name(use.type), ", expected f16 or bf16");
    if (problem.weight.type != use.type && !(is_quantised(problem.weight.type) && use.type == VKATTN_TYPE_F16))
        return text("weight is ", type_name(problem.weight.type), ", expected ", type_name(use.type), " as input");
    return is_built(*use.shader) ? matrix_obstacle(caps, use) : use.shader->code.why_empty();
}

LinearShape shape_of(const LinearMatrixTile &tile, const LinearProblem &problem, const MatrixUse &use,
                     const DeviceCaps &caps) {
    gpu::LinearConstants constants = constants_of(problem);
    constants.ALIGNED = aligned_factors(problem) | (problem.push.in_features % tile.step == 0 ? ALIGNED_STEPS : 0);
    constants.SUBGROUP_SIZE = tile.subgroup_size;
    constants.ROW_SUBGROUPS = tile.row_subgroups;
    constants.WORKGROUP_SIZE = tile.row_subgroups * tile.output_subgroups * tile.subgroup_size;
    constants.TILES = tile.output_matrices;
    constants.ROW_TILES = tile.row_matrices;
    constants.MATRIX_STEP = tile.step;
    constants.LOADS_AHEAD = tile.row_matrices * tile.output_matrices <= matrices_beside_loads(caps) ? 1 : 0;
    constants.MATRIX_M = tile.shape.m;
    constants.MATRIX_N = tile.shape.n;
    constants.MATRIX_K = tile.shape.k;
    return {use.shader, constants, grid(problem, outputs_of(tile), tile_rows(tile)), use.paths};
}

LinearAnswer answer(const LinearProblem &problem, const DeviceCaps &caps) {
    const bool pays = problem.push.rows > kFewRows && caps.traits.matrix_units == 1;
    const MatrixUse use = matrices_of(problem);
    LinearAnswer answer{pays ? Rank::kMatrices : Rank::kByTuningAlone, obstacle(problem, use, caps)};
    if (!answer.obstacle.empty()) return answer;
    if (const std::optional<LinearMatrixTile> tile = tile_of(problem, use, caps))
        answer.shape = shape_of(*tile, problem, use, caps);
    else
        answer.obstacle = "no matrix shape whose tiles fit into shared memory";
    return answer;
}

std::string describe(const LinearShape &shape) {
    const gpu::LinearConstants &c = shape.constants;
    return text(", ", c.MATRIX_M, "x", c.MATRIX_N, "x", c.MATRIX_K, " matrices, ", c.TILES, " x ", c.ROW_TILES, ", ",
                c.WORKGROUP_SIZE / c.SUBGROUP_SIZE, " subgroups");
}

constexpr const Shader *kShaders[] = {&shaders::linear_coopmat, &shaders::linear_coopmat_quantised,
                                      &shaders::linear_coopmat_bf16};

constexpr const Shader *kTransposedShaders[] = {&shaders::linear_transposed_coopmat,
                                                &shaders::linear_transposed_coopmat_quantised,
                                                &shaders::linear_transposed_coopmat_bf16};

} // namespace

const LinearKernel kLinearCoopmat = {.name = "linear_coopmat",
                                     .shaders = kShaders,
                                     .merit = "the matrix units take inputs and weights of the type",
                                     .missing = missing,
                                     .answer = answer,
                                     .describe = describe,
                                     .knobs = kKnobs};

const LinearKernel kLinearTransposedCoopmat = {.name = "linear_transposed_coopmat",
                                               .shaders = kTransposedShaders,
                                               .merit = "the matrix units take inputs and weights of the type",
                                               .missing = missing_of_transposed,
                                               .answer = answer,
                                               .describe = describe,
                                               .knobs = kKnobs,
                                               .trial_rows = 24,
                                               .transposes = true};

} // namespace vkattn
