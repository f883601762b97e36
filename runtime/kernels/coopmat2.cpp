// coopmat2: FlashAttention-2 on matrices of any size, which a workgroup holds together, or each of its subgroups
// (VK_NV_cooperative_matrix2).
#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/vulkan/vulkan_extensions.hpp"
#include "shaders/interface/common.h"

#include <algorithm>
#include <array>
#include <bit>

namespace vkattn {
namespace {

// How a workgroup divides its tile: see ATTENTION_CONSTANTS in shaders/interface/attention.h. Its matrices are made of those of a
// shape that the device lists.
struct FlexibleTile {
    vkattn_matrix_shape shape;
    FlexibleMatrices unit; // what holds a matrix together
    uint32_t subgroup_size, subgroups;
    uint32_t row_matrices; // of a unit
    uint32_t dim_matrices; // of a step of dims
    uint32_t keys;
    bool query_in_registers;
};

// Places in KernelTile::knobs.
enum FlexibleKnob : uint32_t { kFlexibleSubgroupsKnob, kFlexibleKeysKnob };

bool is_whole(const FlexibleTile &tile) { return tile.unit.invocations != 0; }
uint32_t invocations_of(const FlexibleTile &tile) { return tile.subgroups * tile.subgroup_size; }
uint32_t units_of(const FlexibleTile &tile) { return is_whole(tile) ? 1 : tile.subgroups; }
uint32_t unit_rows(const FlexibleTile &tile) { return tile.row_matrices * tile.shape.m; }
uint32_t tile_rows(const FlexibleTile &tile) { return units_of(tile) * unit_rows(tile); }
uint32_t step_of_keys(const FlexibleTile &tile) { return tile.shape.k * tile.dim_matrices; }
uint32_t step_of_values(const FlexibleTile &tile) { return tile.shape.n * tile.dim_matrices; }

// Whole matrices in both products, and whole vectors along a dim's row.
uint32_t unit_of_keys(const FlexibleTile &tile) {
    constexpr uint32_t kVectorElements = 8;
    return std::max({tile.unit.n, tile.unit.k, kVectorElements});
}

// Shared memory that shaders/kernels/coopmat2/tiles.glsl, coopmat/staging.glsl and coopmat2.comp declare.
uint64_t shared_bytes(const FlexibleTile &tile, const AttentionProblem &problem) {
    constexpr uint64_t kVectorBytes = 16, kOthers = 32;
    const auto pitch = [](uint64_t elements) { return elements / 8 + 1; };
    const uint64_t dims = round_up(problem.head_dim, step_of_keys(tile));
    const uint64_t value_dims = round_up(problem.v_head_dim, step_of_values(tile));
    const uint64_t values = is_whole(tile) ? tile.keys * pitch(value_dims) : value_dims * pitch(tile.keys);
    const uint64_t strip = std::max<uint64_t>(pitch(step_of_keys(tile)), step_of_values(tile) / 4 + 1);
    const uint64_t query = tile.query_in_registers ? 0 : tile_rows(tile) * pitch(dims);
    const uint64_t vectors = std::max(tile.keys * pitch(dims) + values, tile_rows(tile) * strip) + query;
    return kVectorBytes * vectors + sizeof(float) * tile_rows(tile) + kOthers;
}

bool fits(const FlexibleTile &tile, const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint64_t reserved = is_whole(tile) ? caps.matrix_workgroup_bytes : 0;
    const uint32_t unit_invocations = is_whole(tile) ? invocations_of(tile) : tile.subgroup_size; // one a row's factor
    return invocations_of(tile) <= caps.max_workgroup_invocations && unit_rows(tile) <= unit_invocations &&
           (caps.max_workgroup_subgroups == 0 || tile.subgroups <= caps.max_workgroup_subgroups) &&
           shared_bytes(tile, problem) + reserved <= caps.max_shared_memory_bytes;
}

const Shader &shader_of(const AttentionProblem &problem) {
    return matrix_type(problem) == VKATTN_TYPE_BF16 ? shaders::coopmat2_bf16 : shaders::coopmat2;
}

MatrixUse use_of(const AttentionProblem &problem) {
    return {&shader_of(problem), matrix_type(problem), paths_of(problem)};
}

// That many invocations hold together, 0: a subgroup's. nullptr: the device has none, or they are not made of the shape.
const FlexibleMatrices *unit_of(const AttentionProblem &problem, const DeviceCaps &caps,
                                const vkattn_matrix_shape &shape, uint32_t invocations) {
    const FlexibleMatrices *unit = flexible_matrices(caps, matrix_type(problem), invocations);
    if (unit == nullptr || invocations > caps.max_matrix_workgroup) return nullptr;
    const auto divides = [](uint32_t a, uint32_t b) { return std::max(a, b) % std::min(a, b) == 0; };
    return divides(unit->m, shape.m) && divides(unit->n, shape.n) && divides(unit->k, shape.k) ? unit : nullptr;
}

// Of a workgroup that holds its matrices together: whole rows of Q, K and V in one product.
void share_among_all(FlexibleTile &tile, uint32_t dims) {
    constexpr uint32_t kRows = 64, kKeys = 64, kKeysOfLargeHeads = 32;
    tile.subgroups = tile.unit.invocations / tile.subgroup_size;
    tile.row_matrices = std::max(round_up(kRows, tile.unit.m), tile.shape.m) / tile.shape.m;
    tile.dim_matrices = tiles(dims, std::min(tile.shape.n, tile.shape.k));
    tile.keys = dims > kUsualHeadDim ? kKeysOfLargeHeads : kKeys;
}

void apply_tuning(FlexibleTile &tile, const KernelTile &tuned) {
    const auto [subgroups, keys] = std::array{tuned.knobs[kFlexibleSubgroupsKnob], tuned.knobs[kFlexibleKeysKnob]};
    constexpr uint32_t kMostSubgroups = 8, kMostKeys = 256;
    if (subgroups != 0 && !is_whole(tile)) tile.subgroups = std::bit_floor(std::min(subgroups, kMostSubgroups));
    if (keys != 0) tile.keys = std::min(keys, kMostKeys);
}

// Matrices are multiples of what the unit takes. A subgroup has one along its rows: Mesa 26 reduces several wrong.
void round_to_matrices(FlexibleTile &tile) {
    const auto matrices = [](uint32_t granularity, uint32_t size) { return std::max(granularity / size, 1u); };
    tile.row_matrices = round_up(tile.row_matrices, matrices(tile.unit.m, tile.shape.m));
    tile.dim_matrices =
        round_up(tile.dim_matrices, std::max(matrices(tile.unit.n, tile.shape.n), matrices(tile.unit.k, tile.shape.k)));
    tile.keys = round_up(tile.keys, unit_of_keys(tile));
}

// Fewer keys, and then, of subgroups' matrices, fewer rows, where shared memory is short. No subgroups: nothing fits.
FlexibleTile flexible_tile(const AttentionProblem &problem, const DeviceCaps &caps, const vkattn_matrix_shape &shape,
                           const FlexibleMatrices &unit) {
    const uint32_t dims = std::max(problem.head_dim, problem.v_head_dim);
    const MatrixLayout rule = matrix_layout(caps, shape, dims);
    constexpr uint32_t kFewKeys = 16; // for compilers of CPU drivers, which unroll matrices slowly
    FlexibleTile tile{.shape = shape,
                      .unit = unit,
                      .subgroup_size = rule.subgroup_size,
                      .subgroups = rule.row_subgroups,
                      .row_matrices = 1,
                      .dim_matrices = 1,
                      .keys =
                          caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU ? std::min(rule.keys, kFewKeys) : rule.keys,
                      .query_in_registers = problem.head_dim <= rule.query_dims};
    if (is_whole(tile)) share_among_all(tile, dims);
    apply_tuning(tile, problem.tile);
    round_to_matrices(tile);
    while (!fits(tile, problem, caps)) {
        if (tile.keys > unit_of_keys(tile))
            tile.keys = round_up(tile.keys / 2, unit_of_keys(tile));
        else if (tile.subgroups > 1 && !is_whole(tile))
            tile.subgroups /= 2;
        else
            return {};
    }
    return tile;
}

const char *missing(const DeviceCaps &caps) {
    if (const char *arrays = obstacle_of_arrays(caps); *arrays != '\0') return arrays;
    if (!is_built(shaders::coopmat2)) return shaders::coopmat2.code.why_empty();
    if (const char *matrices = obstacle_of_matrices(caps); *matrices != '\0') return matrices;
    if (caps.cooperative_matrix_reductions == 0) return "no VK_NV_cooperative_matrix2";
    if (caps.traits.unroll_matrices == 0)
        return "its compiler takes seconds for flexible matrices (unroll_matrices is 0)";
    if (!caps.features.cooperative_matrix_reductions)
        return "cooperativeMatrixReductions, Conversions and PerElementOperations are not enabled";
    if (!caps.features.flexible_matrices) return "cooperativeMatrixFlexibleDimensions is not enabled";
    const bool has_version = caps.api_version >= VK_API_VERSION_1_3 && caps.features.maintenance4;
    return has_version ? "" : "Vulkan is older than 1.3, or maintenance4 is not enabled";
}

std::string obstacle_of_problem(const AttentionProblem &problem, const DeviceCaps &caps) {
    if (problem.variant != nullptr) return "calls no functions of a variant";
    const vkattn_type factors = matrix_type(problem);
    if (factors != VKATTN_TYPE_F16 && factors != VKATTN_TYPE_BF16)
        return text("query is ", type_name(factors), ", expected f16 or bf16, or query_rounding that allows one");
    if (problem.key.type != factors || problem.value.type != factors)
        return text("key is ", type_name(problem.key.type), " and value ", type_name(problem.value.type), ", expected ",
                    type_name(factors), " as query");
    if (!is_built(shader_of(problem))) return shader_of(problem).code.why_empty();
    if (std::string lists = obstacle_of_lists(problem, caps); !lists.empty()) return lists;
    return matrix_obstacle(caps, use_of(problem));
}

gpu::AttentionConstants constants_of_tile(const FlexibleTile &tile, const AttentionProblem &problem) {
    gpu::AttentionConstants constants = constants_of(problem, invocations_of(tile));
    constants.MATRIX_M = tile.shape.m;
    constants.MATRIX_N = tile.shape.n;
    constants.MATRIX_K = tile.shape.k;
    constants.MATRIX_SCOPE = is_whole(tile) ? VK_SCOPE_WORKGROUP_KHR : VK_SCOPE_SUBGROUP_KHR;
    constants.SUBGROUP_SIZE = tile.subgroup_size;
    constants.DIM_SUBGROUPS = tile.dim_matrices;
    constants.ROW_MATRICES = tile.row_matrices;
    constants.KEYS_OF_TILE = tile.keys;
    constants.DIMS_OF_CHUNK = round_up(problem.head_dim, step_of_keys(tile));
    constants.KEYS_OF_CHUNK = tile.keys;
    constants.QUERY_IN_REGISTERS = tile.query_in_registers ? 1 : 0;
    return constants;
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionAnswer answer{Rank::kByTuningAlone, missing(caps)};
    if (answer.obstacle.empty()) answer.obstacle = obstacle_of_problem(problem, caps);
    if (!answer.obstacle.empty()) return answer;
    const vkattn_matrix_shape &shape = matrix_shape_of(caps, use_of(problem), problem.tile.matrix_shape);
    constexpr uint32_t kWorkgroup = 128;
    FlexibleTile tile{};
    bool has_unit = false;
    for (const uint32_t invocations : {kWorkgroup, 0u}) // a workgroup has no room for large heads
        if (const FlexibleMatrices *unit = unit_of(problem, caps, shape, invocations);
            unit != nullptr && tile.subgroups == 0) {
            has_unit = true;
            tile = flexible_tile(problem, caps, shape, *unit);
        }
    if (!has_unit)
        answer.obstacle = text("no flexible matrices of ", type_name(matrix_type(problem)));
    else if (tile.subgroups == 0)
        answer.obstacle = text("head sizes ", problem.head_dim, " and ", problem.v_head_dim,
                               " need more shared memory than ", caps.max_shared_memory_bytes, " bytes");
    else
        answer.shape =
            shape_of_row_tiles(problem, caps, shader_of(problem), constants_of_tile(tile, problem), tile_rows(tile));
    return answer;
}

std::string describe(const AttentionShape &shape) {
    const gpu::AttentionConstants &c = shape.dispatches[0].constants;
    const bool whole = c.MATRIX_SCOPE == VK_SCOPE_WORKGROUP_KHR;
    return text(c.MATRIX_M * c.ROW_MATRICES, " rows and ", c.KEYS_OF_TILE, " keys of each of ",
                whole ? 1 : c.WORKGROUP_SIZE / c.SUBGROUP_SIZE, whole ? " workgroup" : " subgroups");
}

constexpr uint32_t kSubgroups[] = {1, 2, 4, 8}, kKeys[] = {16, 32, 64, 128};
constexpr Knob kKnobs[] = {{"subgroups", kSubgroups}, // of a workgroup, where each has its own matrices
                           {"keys", kKeys}};          // of a tile

constexpr const Shader *kShaders[] = {&shaders::coopmat2, &shaders::coopmat2_bf16};

} // namespace

const AttentionKernel kCoopmat2 = {.kernel = VKATTN_KERNEL_COOPMAT2,
                                   .name = "coopmat2",
                                   .shaders = kShaders,
                                   .merit = "matrix units reduce what they multiplied",
                                   .missing = missing,
                                   .answer = answer,
                                   .describe = describe,
                                   .knobs = kKnobs};

} // namespace vkattn
