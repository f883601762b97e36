#include "runtime/coopmat_planner.hpp"

#include "runtime/context/kernel_support.hpp"
#include "runtime/error.hpp"
#include "runtime/flash_planner.hpp"
#include "runtime/rounding.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kVectorElements = 8; // of 16 bits, of a uvec4
constexpr uint32_t kVectorBytes = 16;
constexpr uint32_t kQueryDimsInRegisters = 256;
constexpr uint32_t kMostOutputs = 128; // f32 sums of an invocation, where they cannot be shared out
constexpr uint32_t kMostSubgroups = 8; // of a workgroup

// How a workgroup divides its tile: see ATTENTION_CONSTANTS in shaders/interface/attention.h.
struct MatrixTile {
    vkattn_matrix_shape shape;
    uint32_t row_subgroups;
    uint32_t dim_subgroups;
    uint32_t keys;
    uint32_t chunk;
    bool query_in_registers;
};

uint32_t rows_of(const MatrixTile &tile) { return tile.row_subgroups * tile.shape.n; }

// Shared memory that shaders/kernels/coopmat/tiles.glsl, lanes.glsl and softmax.glsl declare.
uint64_t shared_bytes(const MatrixTile &tile, const AttentionProblem &problem) {
    const uint32_t key_dims = round_up(problem.head_dim, tile.shape.k);
    const uint32_t strip = tile.shape.m * tile.dim_subgroups;
    const bool whole = key_dims <= tile.chunk && round_up(problem.v_head_dim, strip) <= tile.chunk;
    const uint32_t key_chunk = std::min(tile.chunk, key_dims);
    const uint64_t pitch = tile.chunk / kVectorElements + 1;
    const uint64_t kv = (whole && !problem.value_in_key ? 2 : 1) * tile.keys * pitch;
    const uint64_t query_pitch = round_up(problem.head_dim, key_chunk) / kVectorElements + 1;
    const uint64_t query = rows_of(tile) * query_pitch;
    const uint64_t inputs = tile.query_in_registers ? std::max(kv, query) : kv + query;
    const uint64_t strips = uint64_t{rows_of(tile)} * tile.dim_subgroups * (tile.shape.m / 4 + 1);
    const uint64_t scores = uint64_t{rows_of(tile)} * (tile.keys + 4);
    return kVectorBytes * std::max(inputs, strips) + sizeof(float) * (scores + rows_of(tile) + 1);
}

vkattn_type factors_of(const AttentionProblem &problem) { return problem.query.type; }

// What tuning found or the largest.
const vkattn_matrix_shape &shape_of(const AttentionProblem &problem, const DeviceCaps &caps, vkattn_kernel kernel) {
    const uint32_t tuned = problem.tile.matrix_shape;
    if (tuned != 0 && is_usable_shape(caps, kernel, factors_of(problem), tuned - 1))
        return caps.matrix_shapes[tuned - 1];
    return *largest_matrix_shape(caps, kernel, factors_of(problem));
}

uint32_t outputs_of_invocation(const MatrixTile &tile, const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint32_t dims = round_up(problem.v_head_dim, tile.shape.m * tile.dim_subgroups);
    return dims / tile.dim_subgroups * tile.shape.n / caps.subgroup_size;
}

// Keys of a tile: so many that every subgroup of a row has some, and every invocation of a row a pair.
uint32_t keys_of(const MatrixTile &tile, const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kMostKeys = 256;
    const uint32_t lanes_of_row = std::max(caps.subgroup_size * tile.dim_subgroups / tile.shape.n, 1u);
    const uint32_t rule = std::max(problem.head_dim, problem.v_head_dim) <= 64 ? 64 : 32;
    const uint32_t wanted = problem.tile.keys == 0 ? rule : std::min(problem.tile.keys, kMostKeys);
    uint32_t unit = std::max(tile.shape.m * tile.dim_subgroups, tile.shape.k);
    unit = std::max(unit, 2 * lanes_of_row);
    return round_up(wanted, unit);
}

// The most rows that share K and V, as many as the problem has, in what shared memory there is; then the widest chunks.
bool fit_tile(MatrixTile &tile, const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint32_t most = std::min(kMostSubgroups, caps.max_workgroup_invocations / caps.subgroup_size);
    const uint32_t whole = round_up(std::max(round_up(problem.head_dim, tile.shape.k),
                                             round_up(problem.v_head_dim, tile.shape.m * tile.dim_subgroups)),
                                    kVectorElements);
    const bool tuned = problem.tile.rows != 0;
    tile.row_subgroups = most / tile.dim_subgroups;
    if (tuned) tile.row_subgroups = std::min(tile.row_subgroups, std::bit_floor(problem.tile.rows));
    for (; tile.row_subgroups > 0; tile.row_subgroups /= 2) {
        if (!tuned && tile.row_subgroups > 1 && uint64_t{rows_of(tile)} / 2 >= rows_of(problem)) continue;
        for (uint32_t chunk : {whole, 128u, 64u, 32u}) {
            const uint32_t strip = tile.shape.m * tile.dim_subgroups;
            if (chunk > whole || (chunk < whole && (chunk % tile.shape.k != 0 || chunk % strip != 0))) continue;
            tile.chunk = chunk;
            if (shared_bytes(tile, problem) <= caps.max_shared_memory_bytes) return true;
        }
    }
    return false;
}

// row_subgroups 0: none fits.
MatrixTile tile_of(const AttentionProblem &problem, const DeviceCaps &caps, vkattn_kernel kernel) {
    MatrixTile tile{shape_of(problem, caps, kernel), 1, 1, 0, 0, problem.head_dim <= kQueryDimsInRegisters};
    const bool splits_dims = kernel == VKATTN_KERNEL_COOPMAT;
    if (splits_dims && problem.tile.dim_subgroups != 0)
        tile.dim_subgroups = std::bit_floor(std::min(problem.tile.dim_subgroups, kMostSubgroups));
    while (splits_dims && problem.tile.dim_subgroups == 0 && tile.dim_subgroups < kMostSubgroups &&
           outputs_of_invocation(tile, problem, caps) > caps.traits.matrix_outputs)
        tile.dim_subgroups *= 2;
    for (;; tile.dim_subgroups /= 2) { // each makes a tile wider
        tile.keys = keys_of(tile, problem, caps);
        if (fit_tile(tile, problem, caps) || tile.dim_subgroups == 1) return tile;
    }
}

bool is_factor(vkattn_type type, vkattn_type factors) {
    return type == factors || (factors == VKATTN_TYPE_F16 && is_quantised(type));
}

} // namespace

std::string coopmat_obstacle(const AttentionProblem &problem, const DeviceCaps &caps, vkattn_kernel kernel) {
    const vkattn_type factors = factors_of(problem);
    if (factors != VKATTN_TYPE_F16 && factors != VKATTN_TYPE_BF16)
        return text("query is ", type_name(factors), ", expected f16 or bf16");
    if (!is_factor(problem.key.type, factors) || !is_factor(problem.value.type, factors))
        return text("key is ", type_name(problem.key.type), " and value ", type_name(problem.value.type), ", expected ",
                    type_name(factors), factors == VKATTN_TYPE_F16 ? ", q8_0 or q4_0 as query is f16" : " as query");
    if (std::string obstacle = matrix_obstacle(caps, kernel, factors); !obstacle.empty()) return obstacle;
    if (problem.batch_invariant) return "batch_invariant";
    const MatrixTile tile = tile_of(problem, caps, kernel);
    if (kernel == VKATTN_KERNEL_COOPMAT2 && outputs_of_invocation(tile, problem, caps) > kMostOutputs)
        return text("value head size ", problem.v_head_dim, " is too large for a subgroup's registers");
    if (tile.row_subgroups == 0)
        return text("head sizes ", problem.head_dim, " and ", problem.v_head_dim, " need more shared memory than ",
                    caps.max_shared_memory_bytes, " bytes");
    return "";
}

bool coopmat_pays(const AttentionProblem &problem, const DeviceCaps &caps) {
    return caps.traits.matrix_units != 0 && rows_of(problem) >= caps.traits.fewest_matrix_rows;
}

void plan_coopmat(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    if (const std::string obstacle = coopmat_obstacle(problem, caps, choice.kernel); !obstacle.empty())
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: ", vkattn_kernel_name(choice.kernel), ": ", obstacle);
    const MatrixTile tile = tile_of(problem, caps, choice.kernel);
    choice.body = FlashBody::kMatrices;
    choice.keys_per_dispatch = problem.kv_len;
    const uint32_t row_tiles = tiles(rows_of(problem), rows_of(tile));
    choice.parts = parts_to_fill(problem, caps, uint64_t{row_tiles} * problem.kv_heads * problem.batch,
                                 keys_of_dispatch(problem, caps, tile.keys));
    gpu::AttentionConstants constants =
        constants_of(problem, caps.subgroup_size * tile.row_subgroups * tile.dim_subgroups);
    constants.MATRIX_M = tile.shape.m;
    constants.MATRIX_N = tile.shape.n;
    constants.MATRIX_K = tile.shape.k;
    constants.SUBGROUP_SIZE = caps.subgroup_size;
    constants.DIM_SUBGROUPS = tile.dim_subgroups;
    constants.KEYS_OF_TILE = tile.keys;
    constants.DIMS_OF_CHUNK = tile.chunk;
    constants.QUERY_IN_REGISTERS = tile.query_in_registers ? 1 : 0;
    constants.VALUE_IN_KEY = problem.value_in_key ? 1 : 0;
    choice.dispatches[0] = {constants, {row_tiles * choice.parts, problem.kv_heads, problem.batch}};
    finish_parts(problem, caps, choice);
}

} // namespace vkattn
