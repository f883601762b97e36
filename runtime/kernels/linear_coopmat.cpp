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

enum Place : uint32_t { kSubgroupsKnob, kMatricesKnob, kFeaturesKnob };
constexpr uint32_t kSubgroupsToTry[] = {1, 2, 8}, kMatricesToTry[] = {1, 2, 4}, kFeaturesToTry[] = {1, 2, 4};
constexpr Knob kKnobs[] = {{"subgroups", kSubgroupsToTry}, // of a workgroup
                           {"matrices", kMatricesToTry},   // of a subgroup, along the rows and along the outputs
                           {"feature_subgroups", kFeaturesToTry}}; // that share a tile's features; 1: none do

// How a workgroup divides its tile, and each step of the features that it sums up.
struct LinearMatrixTile {
    vkattn_matrix_shape shape;
    uint32_t subgroup_size;
    uint32_t row_subgroups, output_subgroups, feature_subgroups;
    uint32_t row_matrices, output_matrices; // of a subgroup
    uint32_t step;                          // input features in shared memory at a time
};

uint32_t subgroups_of(const LinearMatrixTile &tile) {
    return tile.row_subgroups * tile.output_subgroups * tile.feature_subgroups;
}
uint32_t tile_rows(const LinearMatrixTile &tile) { return tile.row_subgroups * tile.row_matrices * tile.shape.n; }
uint32_t outputs_of(const LinearMatrixTile &tile) {
    return tile.output_subgroups * tile.output_matrices * tile.shape.m;
}

// Shared memory that linear_coopmat.comp declares.
uint64_t shared_bytes(const LinearMatrixTile &tile) {
    const uint64_t inputs = uint64_t{tile_rows(tile) + outputs_of(tile)} * (tile.step / 8 + 1);
    const uint64_t strips = uint64_t{subgroups_of(tile)} * tile.shape.n * (tile.shape.m / 4 + 1);
    return 16 * std::max(inputs, strips);
}

constexpr uint32_t kStep = 32, kLongStep = 64;
constexpr uint32_t kMostLoads = 12; // of an invocation at a time, of eight features each, for which it has registers

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
    constexpr uint32_t kTwoEights = 16; // of either side, that an invocation's loads take together
    if (problem.transposed == 0) return;
    while (tile_rows(tile) % kTwoEights != 0) tile.row_matrices *= 2;
    while (outputs_of(tile) % kTwoEights != 0) tile.output_matrices *= 2;
    if (!is_quantised(problem.weight.type)) return;
    while (outputs_of(tile) % elements_of_eights(problem.weight.type) != 0) {
        if (tile.row_subgroups > 1 && tile_rows(tile) / 2 % kTwoEights == 0) {
            tile.row_subgroups /= 2;
            tile.output_subgroups *= 2;
        } else {
            tile.output_matrices *= 2;
        }
    }
}

// Without rows of subgroups that would be empty.
LinearMatrixTile large_tile(const LinearProblem &problem, const vkattn_matrix_shape &shape, uint32_t subgroup_size,
                            uint32_t subgroups, uint32_t matrices, const DeviceCaps &caps) {
    const uint32_t rows = std::bit_ceil(tiles(problem.push.rows, matrices * shape.n));
    const uint32_t row_subgroups = std::min(subgroups > 1 ? subgroups / 2 : 1, rows);
    return {shape, subgroup_size, row_subgroups, subgroups / row_subgroups,
            1,     matrices,      matrices,      fewest_features(problem, caps)};
}

uint64_t workgroups(const LinearMatrixTile &tile, const LinearProblem &problem) {
    return workgroup_count(grid(problem, outputs_of(tile), tile_rows(tile)));
}

// Loads of an invocation of such a tile.
uint32_t loads(const LinearMatrixTile &tile) {
    return tiles((tile_rows(tile) + outputs_of(tile)) * tile.step / 8, subgroups_of(tile) * tile.subgroup_size);
}

// With the longest step that there is room for, or one of as few that is no longer than it needs to be.
std::optional<LinearMatrixTile> with_long_step(LinearMatrixTile tile, const LinearProblem &problem,
                                               const DeviceCaps &caps) {
    const uint32_t features = problem.push.in_features;
    const uint32_t unit = std::max(fewest_features(problem, caps), tile.feature_subgroups * tile.shape.k);
    for (uint32_t longest = longest_matrix_step(caps); longest >= unit; longest /= 2) {
        const uint32_t steps = tiles(features, longest);
        tile.step = std::max(tiles(tiles(features, steps), unit), 1u) * unit;
        if (loads(tile) <= kMostLoads && shared_bytes(tile) <= caps.max_shared_memory_bytes) return tile;
    }
    return std::nullopt;
}

// Of a tile, or of one of half as many subgroups where its shorter steps have fewer features past the last.
std::optional<LinearMatrixTile> least_padded(const LinearMatrixTile &tile, const LinearProblem &problem,
                                             const DeviceCaps &caps) {
    const auto padded = [&](const auto &each) { return tiles(problem.push.in_features, each->step) * each->step; };
    const std::optional<LinearMatrixTile> all = with_long_step(tile, problem, caps);
    LinearMatrixTile half = tile;
    half.feature_subgroups = std::max(tile.feature_subgroups / 2, 1u);
    const std::optional<LinearMatrixTile> fewer = with_long_step(half, problem, caps);
    return all.has_value() && (!fewer.has_value() || padded(all) <= padded(fewer)) ? all : fewer;
}

// Tiles whose features the subgroups of a workgroup divide; each is taken where a core gets at most so many workgroups of it.
struct FeatureTile {
    uint32_t row_matrices, output_matrices, workgroups_of_core;
};
constexpr FeatureTile kFeatureTiles[] = {{1, 1, 1}, {2, 1, 1}, {2, 2, 2}, {4, 2, 0}, {4, 4, 1}};

// Where workgroups are few, their subgroups divide the features of a small tile, not the rows and outputs of a large one: there are
// more workgroups, and each reads shared memory and waits for memory less often for a product. Of 16 rows (4096 to 1024 features)
// f16 8.9 µs in place of 16.6 on navi31, q4_K 6.3 in place of 25.2, of 256 rows 34.1 in place of 41.2, modelled. Nothing where they
// are many, if `always` does not say otherwise.
std::optional<LinearMatrixTile> divide_features(LinearMatrixTile tile, const LinearProblem &problem,
                                                const DeviceCaps &caps, bool always) {
    const uint32_t rows = tiles(problem.push.rows, tile.shape.n);
    const uint32_t most = caps.traits.unroll_matrices == 0 ? 2 : most_linear_matrices(caps);
    for (const FeatureTile &row : kFeatureTiles) {
        const uint32_t matrices = row.row_matrices * row.output_matrices;
        if (matrices > most) break;
        tile.row_matrices = std::min(row.row_matrices, std::bit_ceil(rows));
        tile.output_matrices = row.output_matrices;
        const bool is_few = workgroups(tile, problem) <= row.workgroups_of_core * cores_of(caps.traits);
        const bool reads_once = row.output_matrices == 2 && tile.row_matrices >= rows; // the weight
        if (!is_few && !reads_once && !(always && 2 * matrices > most)) continue;
        const bool multiplies = row.output_matrices > 1; // rather than waits
        const std::optional<LinearMatrixTile> found =
            multiplies ? least_padded(tile, problem, caps) : with_long_step(tile, problem, caps);
        if (found.has_value()) return found;
    }
    return std::nullopt;
}

// Whether tiles of half the size would leave less of a matrix's side empty.
bool is_half_empty(uint32_t size, uint32_t tile_size) {
    return 2 * tiles(size, tile_size) > tiles(size, tile_size / 2);
}

// Rows of a tile share what it loads and decodes of the weight, outputs what it loads of the input: it has more of them where enough
// workgroups are left. Twice the rows: of 512 (4096 to 4096 features) f16 203.9 µs in place of 215.7 on navi31, q4_K 239 in place of
// 269. Twice the outputs as well: of 512 rows f16 137 in place of 154 on gfx1201, q8_0 173 in place of 186, of 768 f16 264 in place
// of 272 on navi31, modelled.
void share_more(LinearMatrixTile &tile, const LinearProblem &problem, const DeviceCaps &caps) {
    if (!has_room_for_long_steps(caps) || tile.step > kLongStep || tile.output_matrices != kMostMatrices / 2) return;
    LinearMatrixTile tall = tile;
    tall.row_matrices = 2 * tile.row_matrices;
    const uint64_t fewest = uint64_t{2} * cores_of(caps.traits);
    if (is_half_empty(problem.push.rows, tile_rows(tall)) || workgroups(tall, problem) < fewest) return;
    LinearMatrixTile wide = tall;
    wide.output_matrices = 2 * tile.output_matrices;
    const bool has_registers = tile.step == kStep; // for a longer step's loads beside its sums
    const bool is_filled = !is_half_empty(problem.push.out_features, outputs_of(wide));
    tile = has_registers && is_filled && workgroups(wide, problem) >= fewest ? wide : tall;
}

// Of a workgroup in subgroups of such a size.
uint32_t most_subgroups(uint32_t wanted, uint32_t subgroup_size, const DeviceCaps &caps) {
    const uint32_t told = caps.max_workgroup_subgroups == 0 ? kMostSubgroups : caps.max_workgroup_subgroups;
    return std::bit_floor(std::min({wanted, kMostSubgroups, told, caps.max_workgroup_invocations / subgroup_size}));
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

// What tuning found or the rule's of a shape, less where shared memory ends.
std::optional<LinearMatrixTile> tile_of(const LinearProblem &problem, const vkattn_matrix_shape &shape,
                                        const DeviceCaps &caps) {
    const auto &knobs = problem.tile.knobs;
    const uint32_t tuned_matrices = knobs[kMatricesKnob], tuned_features = knobs[kFeaturesKnob];
    const uint32_t size = matrix_layout(caps, shape, 1).subgroup_size;
    if (problem.transposed == 0 && tuned_matrices == 0 && tuned_features != 1) {
        const uint32_t wanted = tuned_features == 0 ? kMostSubgroups : tuned_features;
        const uint32_t dividing = std::min(most_subgroups(wanted, size, caps), longest_matrix_step(caps) / shape.k);
        const LinearMatrixTile tile{shape, size, 1, 1, dividing, 1, 1, 0};
        if (const auto found = divide_features(tile, problem, caps, tuned_features != 0)) return found;
    }
    const uint32_t rule = caps.traits.unroll_matrices != 0 ? 2 : 1;
    const uint32_t matrices = tuned_matrices == 0 ? rule : std::bit_floor(std::min(tuned_matrices, kMostMatrices));
    uint32_t subgroups = most_subgroups(knobs[kSubgroupsKnob] == 0 ? kSubgroups : knobs[kSubgroupsKnob], size, caps);
    for (; subgroups > 0; subgroups /= 2) {
        LinearMatrixTile tile = large_tile(problem, shape, size, subgroups, matrices, caps);
        // loads of so long a step leave no registers for the sums of several
        if (tile.step > kLongStep && matrices_beside_loads(caps) == 1) tile.row_matrices = tile.output_matrices = 1;
        if (tuned_matrices == 0) share_more(tile, problem, caps);
        take_whole_eights(tile, problem);
        if (shared_bytes(tile) <= caps.max_shared_memory_bytes) return tile;
    }
    return std::nullopt;
}

// Of the largest shape for which shared memory suffices.
std::optional<LinearMatrixTile> tile_of(const LinearProblem &problem, const MatrixUse &use, const DeviceCaps &caps) {
    std::vector<uint32_t> indices = usable_shapes(caps, use);
    const auto given = std::ranges::find(indices, problem.tile.matrix_shape - 1);
    if (given != indices.end()) std::rotate(indices.begin(), given, given + 1);
    for (const uint32_t index : indices) {
        const vkattn_matrix_shape &shape = caps.matrix_shapes[index];
        if (shape.k > kStep) continue;
        if (const std::optional<LinearMatrixTile> tile = tile_of(problem, shape, caps)) return tile;
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
    constants.FEATURE_SUBGROUPS = tile.feature_subgroups;
    constants.WORKGROUP_SIZE = subgroups_of(tile) * tile.subgroup_size;
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
                c.WORKGROUP_SIZE / c.SUBGROUP_SIZE,
                c.FEATURE_SUBGROUPS > 1 ? " subgroups, which divide the features" : " subgroups");
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
                                     .knobs = kKnobs,
                                     .gated_trial_knobs = {0, 0, 1}}; // that of one matrix divides the features

const LinearKernel kLinearTransposedCoopmat = {.name = "linear_transposed_coopmat",
                                               .shaders = kTransposedShaders,
                                               .merit = "the matrix units take inputs and weights of the type",
                                               .missing = missing_of_transposed,
                                               .answer = answer,
                                               .describe = describe,
                                               .knobs = std::span(kKnobs).first(kFeaturesKnob),
                                               .trial_rows = 24,
                                               .transposes = true};

} // namespace vkattn
