// Attention's gradients on matrix units, as shaders/kernels/backward/matrix_tiles.glsl has them.
#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/backward.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kSubgroups = 4, kMostSubgroups = 8, kMostPassing = 64;
constexpr uint32_t kMostDimsInRegisters = 128;
constexpr uint32_t kMostSumsOfInvocation = 160; // numbers: registers

// The knobs, by their places.
enum Place : uint32_t { kGradientSubgroupsKnob, kGradientPassingKnob, kGradientRegistersKnob };
constexpr uint32_t kSubgroupsToTry[] = {2, 4, 8}, kPassingToTry[] = {16, 32, 64}, kRegistersToTry[] = {1, 2};
constexpr Knob kKnobs[] = {
    {"subgroups", kSubgroupsToTry},
    {"passing", kPassingToTry},
    {"registers", kRegistersToTry}}; // own rows or keys are in them: 1 where they are few, 2 never

struct MatrixBackwardTile {
    vkattn_matrix_shape shape;
    uint32_t subgroup_size, subgroups; // two share own ones
    bool own_in_registers;
    uint32_t passing;

    uint32_t own_matrices() const { return subgroups / 2; }
    uint32_t own() const { return own_matrices() * shape.m; }
};

uint64_t vectors_of(const AttentionProblem &problem, const MatrixBackwardTile &tile) { // of eight dims
    return round_up(std::max(problem.head_dim, problem.v_head_dim), std::max(tile.shape.k, 8u)) / 8;
}

uint32_t blocks_of(const AttentionProblem &problem, const MatrixBackwardTile &tile) {
    return static_cast<uint32_t>(tiles(8 * vectors_of(problem, tile), tile.shape.n));
}

// Matrices of sums that a subgroup has.
uint32_t sums_of_subgroup(const AttentionProblem &problem, const MatrixBackwardTile &tile, BackwardSums sums) {
    const uint32_t parts = sums == BackwardSums::kKeys ? tile.own_matrices() : tile.subgroups;
    return tile.own_matrices() * tiles(blocks_of(problem, tile), parts);
}

uint64_t shared_bytes(const AttentionProblem &problem, const MatrixBackwardTile &tile, BackwardSums sums) {
    constexpr uint64_t kElement = 16, kNumbers = 20;
    const uint64_t m = tile.shape.m, n = tile.shape.n, own = tile.own(), passing = tile.passing;
    const uint64_t pitch = vectors_of(problem, tile) + 1, block = n * (passing / 8 + 1) + 1;
    const uint64_t given = round_up(passing / n, uint64_t{2}) * m * (n / 4);
    const uint64_t strip = std::max(given + 2 * m * (passing / 8 + 1), 2 * m * (passing / 4 + 1));
    const uint64_t summed = blocks_of(problem, tile) * block * (sums == BackwardSums::kKeys ? 2 : 1);
    const uint64_t others = tile.own_matrices() * strip + std::max(2 * passing * pitch, summed);
    return kElement * (tile.own_in_registers ? std::max(2 * own * pitch, others) : 2 * own * pitch + others) +
           kNumbers * std::max(own, passing) + sizeof(float) * (tile.subgroups * tile.subgroup_size + passing);
}

const Shader &shader_of(const BackwardProblem &problem, const DeviceCaps &caps) {
    const bool of_queries = problem.sums == BackwardSums::kQueries;
    if (problem.attention.query.type == VKATTN_TYPE_BF16)
        return of_queries ? shaders::backward_queries_coopmat_bf16 : shaders::backward_keys_coopmat_bf16;
    const bool rolled = caps.traits.unroll_matrices == 0 && is_built(shaders::backward_queries_coopmat_rolled);
    if (rolled) return of_queries ? shaders::backward_queries_coopmat_rolled : shaders::backward_keys_coopmat_rolled;
    return of_queries ? shaders::backward_queries_coopmat : shaders::backward_keys_coopmat;
}

std::string obstacle_of_device(const DeviceCaps &caps, const MatrixUse &use) {
    if (!is_built(*use.shader)) return text(use.shader->name, " is not in this library");
    if (caps.traits.matrix_units == 0) return "the trait matrix_units is 0";
    if (caps.max_loop_iterations != 0) return "loops are bounded";
    if (matrices_beside_loads(caps) <= 1) return "too few registers: Intel's compiler spills hundreds";
    return matrix_obstacle(caps, use);
}

// Rows of 16 bits in whole vectors, all of one type; dropout that does not make f16 weights too large.
std::string obstacle_of_problem(const AttentionProblem &problem, const vkattn_tensor &d_output) {
    constexpr float kMostDropout = 0.9f;
    const vkattn_type type = problem.query.type;
    if (!is_in_halves(problem) || problem.key.type != type || problem.value.type != type || d_output.type != type)
        return "query, key, value and d_output are not all f16 or all bf16 in whole vectors";
    if (!rows_are_aligned(problem, d_output, problem.batch_invariant))
        return "rows of d_output do not begin at multiples of 16 bytes";
    return problem.dropout_p <= kMostDropout ? "" : "dropout makes weights too large for f16";
}

bool pays(const AttentionProblem &problem, const DeviceCaps &caps) {
    return caps.traits.matrix_units == 1 && rows_that_share_keys(problem) >= caps.traits.fewest_matrix_rows;
}

MatrixBackwardTile matrix_tile(const BackwardProblem &problem, const DeviceCaps &caps, const MatrixUse &use) {
    const auto &knobs = problem.tile.knobs;
    const vkattn_matrix_shape &shape = matrix_shape_of(caps, use, problem.tile.matrix_shape);
    const uint32_t dims = std::max(problem.attention.head_dim, problem.attention.v_head_dim);
    const uint32_t subgroups = knobs[kGradientSubgroupsKnob], passing = knobs[kGradientPassingKnob];
    const uint32_t passing_of_rule = dims > kMostDimsInRegisters ? 16 : 32;
    return {.shape = shape,
            .subgroup_size = matrix_layout(caps, shape, dims).subgroup_size,
            .subgroups = subgroups == 0 ? kSubgroups : std::bit_floor(std::clamp(subgroups, 2u, kMostSubgroups)),
            .own_in_registers = dims <= kMostDimsInRegisters && knobs[kGradientRegistersKnob] != 2,
            .passing = round_up(passing == 0 ? passing_of_rule : std::min(passing, kMostPassing),
                                std::max({shape.n, shape.k, 8u}))};
}

bool fits(const BackwardProblem &problem, const DeviceCaps &caps, const MatrixBackwardTile &tile) {
    return shared_bytes(problem.attention, tile, problem.sums) <= caps.max_shared_memory_bytes &&
           tile.subgroups * tile.subgroup_size <= caps.max_workgroup_invocations &&
           (caps.max_workgroup_subgroups == 0 || tile.subgroups <= caps.max_workgroup_subgroups);
}

std::string obstacle_of_tile(const BackwardProblem &problem, const DeviceCaps &caps, const MatrixBackwardTile &tile) {
    const vkattn_matrix_shape &shape = tile.shape;
    const bool is_whole = tile.passing % shape.n == 0 && tile.passing % shape.k == 0 &&
                          shape.m * tile.passing / 2 % (2 * tile.subgroup_size) == 0;
    if (!is_whole) return "matrices and subgroups do not divide a tile";
    if (!fits(problem, caps, tile)) return "tiles need more shared memory or subgroups than there are";
    const uint32_t matrices = sums_of_subgroup(problem.attention, tile, problem.sums);
    return matrices * shape.m * shape.n / tile.subgroup_size > kMostSumsOfInvocation ? "sums take too many registers"
                                                                                     : "";
}

BackwardAnswer answer(const BackwardProblem &problem, const DeviceCaps &caps) {
    const AttentionProblem &attention = problem.attention;
    const MatrixUse use{&shader_of(problem, caps), attention.query.type, 0};
    BackwardAnswer answer{pays(attention, caps) ? Rank::kMatrices : Rank::kMatricesDoNotPay,
                          obstacle_of_problem(attention, problem.d_output)};
    if (answer.obstacle.empty()) answer.obstacle = obstacle_of_device(caps, use);
    if (!answer.obstacle.empty()) return answer;
    MatrixBackwardTile tile = matrix_tile(problem, caps, use);
    while (!fits(problem, caps, tile) && tile.subgroups > 2) tile.subgroups /= 2;
    answer.obstacle = obstacle_of_tile(problem, caps, tile);
    if (!answer.obstacle.empty()) return answer;
    gpu::AttentionConstants constants = constants_of(attention, tile.subgroups * tile.subgroup_size);
    constants.MATRIX_M = tile.shape.m;
    constants.MATRIX_N = tile.shape.n;
    constants.MATRIX_K = tile.shape.k;
    constants.SUBGROUP_SIZE = tile.subgroup_size;
    constants.KEYS_OF_TILE = tile.passing;
    constants.QUERY_IN_REGISTERS = tile.own_in_registers ? 1 : 0;
    answer.shape = {use.shader, constants, tile.own(), tile.passing};
    return answer;
}

std::string describe(const BackwardShape &shape) {
    const gpu::AttentionConstants &c = shape.constants;
    return text(c.MATRIX_M, "x", c.MATRIX_N, "x", c.MATRIX_K, " matrices, ", c.WORKGROUP_SIZE / c.SUBGROUP_SIZE,
                " subgroups, ", words_of_tile(shape), c.QUERY_IN_REGISTERS != 0 ? ", own ones in registers" : "");
}

constexpr const Shader *kShaders[] = {&shaders::backward_queries_coopmat,        &shaders::backward_keys_coopmat,
                                      &shaders::backward_queries_coopmat_rolled, &shaders::backward_keys_coopmat_rolled,
                                      &shaders::backward_queries_coopmat_bf16,   &shaders::backward_keys_coopmat_bf16};

} // namespace

const BackwardKernel kBackwardCoopmat = {.shaders = kShaders, .answer = answer, .describe = describe, .knobs = kKnobs};

} // namespace vkattn
