// coopmat: every row's keys in turn on matrix units, or in parts joined by a merge.
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/matrix_tiles.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

namespace vkattn {
namespace {

bool is_factor(vkattn_type type, vkattn_type factors) {
    return type == factors || (factors == VKATTN_TYPE_F16 && is_quantised(type));
}

const char *missing(const DeviceCaps &caps) {
    if (caps.traits.specialised_arrays == 0) return obstacle_of_arrays(caps);
    if (!is_built(shaders::coopmat)) return "built by a GLSL compiler without GL_KHR_cooperative_matrix";
    return obstacle_of_matrices(caps);
}

// No driver that wants loops rolled multiplies matrices of bf16.
const Shader &shader_of(const AttentionProblem &problem, const DeviceCaps &caps) {
    if (problem.query.type == VKATTN_TYPE_BF16) return shaders::coopmat_bf16;
    return caps.traits.unroll_matrices == 0 ? shaders::coopmat_rolled : shaders::coopmat;
}

std::string obstacle(const AttentionProblem &problem, const DeviceCaps &caps) {
    const vkattn_type factors = problem.query.type;
    if (factors != VKATTN_TYPE_F16 && factors != VKATTN_TYPE_BF16)
        return text("query is ", type_name(factors), ", expected f16 or bf16");
    if (!is_factor(problem.key.type, factors) || !is_factor(problem.value.type, factors))
        return text("key is ", type_name(problem.key.type), " and value ", type_name(problem.value.type), ", expected ",
                    type_name(factors),
                    factors == VKATTN_TYPE_F16 ? " or a quantised type as query is f16" : " as query");
    return matrix_obstacle(caps, {&shader_of(problem, caps), factors, paths_of(problem)});
}

// Whether the rows fill matrices well enough.
bool pays(const AttentionProblem &problem, const DeviceCaps &caps) {
    return caps.traits.matrix_units != 0 && rows_of(problem) >= caps.traits.fewest_matrix_rows;
}

gpu::AttentionConstants constants_of_tile(const MatrixTile &tile, const AttentionProblem &problem) {
    gpu::AttentionConstants constants = constants_of(problem, tile.subgroup_size * subgroups_of(tile));
    constants.MATRIX_M = tile.shape.m;
    constants.MATRIX_N = tile.shape.n;
    constants.MATRIX_K = tile.shape.k;
    constants.SUBGROUP_SIZE = tile.subgroup_size;
    constants.DIM_SUBGROUPS = tile.dim_subgroups;
    constants.ROW_MATRICES = tile.row_matrices;
    constants.KEYS_OF_TILE = tile.keys;
    constants.DIMS_OF_CHUNK = tile.chunk_dims;
    constants.KEYS_OF_CHUNK = tile.chunk_keys;
    constants.TAKES_TURNS = tile.takes_turns ? 1 : 0;
    constants.QUERY_IN_REGISTERS = tile.query_in_registers ? 1 : 0;
    return constants;
}

AttentionShape shape_of(const MatrixTile &tile, const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint32_t row_tiles = tiles(rows_of(problem), rows_of(tile));
    AttentionShape shape{};
    shape.keys_per_dispatch = problem.kv_len;
    const Shader &shader = shader_of(problem, caps);
    shape.parts = may_take_parts(problem, caps, shader_name(shader, tile.shape))
                      ? parts_that_pay(problem, caps,
                                       {.count = uint64_t{row_tiles} * problem.kv_heads * problem.batch,
                                        .filling = caps.traits.parallel_workgroups,
                                        .keys_of_tile = tile.keys})
                      : tiles(problem.kv_len, keys_of_dispatch(problem, caps, tile.keys));
    shape.dispatches[0] = {
        &shader, constants_of_tile(tile, problem), {row_tiles * shape.parts, problem.kv_heads, problem.batch}};
    finish_parts(problem, caps, shape);
    return shape;
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionAnswer answer{pays(problem, caps) ? Rank::kMatrices : Rank::kMatricesDoNotPay, obstacle(problem, caps)};
    if (!answer.obstacle.empty()) return answer;
    const MatrixTile tile = matrix_tile(problem, caps, shader_of(problem, caps));
    if (tile.row_subgroups == 0)
        answer.obstacle = text("head sizes ", problem.head_dim, " and ", problem.v_head_dim,
                               " need more shared memory than ", caps.max_shared_memory_bytes, " bytes");
    else
        answer.shape = shape_of(tile, problem, caps);
    return answer;
}

std::string describe(const AttentionShape &shape) {
    const gpu::AttentionConstants &c = shape.dispatches[0].constants;
    return text(c.MATRIX_M, "x", c.MATRIX_N, "x", c.MATRIX_K, " matrices, ",
                c.WORKGROUP_SIZE / c.SUBGROUP_SIZE / c.DIM_SUBGROUPS, " x ", c.DIM_SUBGROUPS, " subgroups, ",
                c.KEYS_OF_TILE, " keys");
}

constexpr uint32_t kRows[] = {1, 2, 4, 8}, kKeys[] = {8, 16, 32, 64, 128}, kSubgroups[] = {1, 2, 4};
constexpr Knob kKnobs[] = {{"rows", kRows},                // subgroups along the rows
                           {"keys", kKeys},                // of a tile
                           {"dim_subgroups", kSubgroups}}; // that share their query rows

constexpr const Shader *kShaders[] = {&shaders::coopmat, &shaders::coopmat_rolled, &shaders::coopmat_bf16};

} // namespace

// VK_NV_cooperative_matrix2 is worth 0 to 2 % of what the loop over keys issues (bench/results/gpu-lab): no kernel of its own.
const AttentionKernel kCoopmat = {.kernel = VKATTN_KERNEL_COOPMAT,
                                  .name = "coopmat",
                                  .shaders = kShaders,
                                  .merit = "the matrix units take the types of query, key and value",
                                  .missing = missing,
                                  .answer = answer,
                                  .describe = describe,
                                  .knobs = kKnobs};

} // namespace vkattn
