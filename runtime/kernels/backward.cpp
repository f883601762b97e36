#include "runtime/kernels/backward.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kWorkgroup = 128, kColumns = 16, kMostRows = 4, kMostKeys = 4, kChunk = 32; // dims
constexpr uint32_t kMostSums = 16; // blocks of four numbers, of an invocation: registers

uint32_t blocks_of(uint32_t dims, const BackwardTile &tile) { return tiles(tiles(dims, 4), tile.columns); }

uint32_t sums_of_row(const AttentionProblem &problem, const BackwardTile &tile, BackwardSums sums) {
    if (sums == BackwardSums::kMask) return 0;
    const uint32_t of_first = blocks_of(problem.head_dim, tile), of_second = blocks_of(problem.v_head_dim, tile);
    return sums == BackwardSums::kQueries ? of_first : of_first + of_second;
}

// Elements of a passing one whose vectors are summed.
uint64_t sum_pitch(const AttentionProblem &problem, const BackwardTile &tile) {
    return blocks_of(std::max(problem.head_dim, problem.v_head_dim), tile) * uint64_t{tile.columns} + 1;
}

uint64_t shared_bytes(const AttentionProblem &problem, const BackwardTile &tile) {
    constexpr uint64_t kElement = 16, kNumbers = 8; // of a block; of a row
    const uint64_t pitch = tile.dims_of_chunk / 4 + 1, own = tile.own(), passing = tile.passing();
    const uint64_t numbers = passing + (tile.reads_ahead ? 2 : 0); // of an own one
    return kElement * (own * pitch + std::max(passing * pitch, tile.keys_of_chunk * sum_pitch(problem, tile))) +
           2 * sizeof(float) * own * numbers + kNumbers * std::max(own, passing) + sizeof(uint32_t) * (1 + passing);
}

// As many as fit where the products' tile lies.
uint32_t keys_of_chunk(const AttentionProblem &problem, const BackwardTile &tile) {
    const uint64_t elements = tile.passing() * uint64_t{tile.dims_of_chunk / 4 + 1};
    return static_cast<uint32_t>(std::clamp(std::bit_floor(std::max<uint64_t>(elements / sum_pitch(problem, tile), 1)),
                                            uint64_t{1}, uint64_t{tile.passing()}));
}

bool is_of(const DeviceCaps &caps, GpuClass gpu) { return static_cast<GpuClass>(caps.traits.gpu_class) == gpu; }

// Loads and sums that are under way together take registers: of AMD's GPUs shared memory, not registers, bounds how many workgroups are
// at work.
bool reads_ahead(const DeviceCaps &caps) { return is_of(caps, GpuClass::kRdna) || is_of(caps, GpuClass::kGcn); }

} // namespace

BackwardTile backward_tile(const AttentionProblem &problem, const DeviceCaps &caps, BackwardSums sums) {
    BackwardTile tile{.workgroup = std::min(kWorkgroup, std::bit_floor(caps.max_workgroup_invocations)),
                      .columns = kColumns,
                      .rows = kMostRows,
                      .keys = kMostKeys,
                      .dims_of_chunk = kChunk,
                      .keys_of_chunk = 1,
                      .reads_ahead = reads_ahead(caps)};
    // beside the keys' loads of 16 bits and both sums of large heads, whose code takes more registers; RDNA has them, and more rows share
    // what it reads of shared memory
    const bool large = sums == BackwardSums::kKeys && problem.head_dim + problem.v_head_dim > 128;
    const uint32_t most = large && !is_of(caps, GpuClass::kRdna) ? kMostSums / 2 : kMostSums;
    while (tile.rows > 1 && tile.rows * sums_of_row(problem, tile, sums) > most) tile.rows /= 2;
    const auto fits = [&] {
        tile.keys_of_chunk = keys_of_chunk(problem, tile);
        return shared_bytes(problem, tile) <= caps.max_shared_memory_bytes;
    };
    while (!fits() && tile.keys > 1) tile.keys /= 2;
    while (!fits() && tile.rows > 1) tile.rows /= 2;
    return tile;
}

gpu::AttentionConstants backward_constants(const AttentionProblem &problem, const BackwardTile &tile) {
    gpu::AttentionConstants constants = constants_of(problem, tile.workgroup);
    constants.COLUMNS = tile.columns;
    constants.ROWS = tile.rows;
    constants.KEYS_OF_INVOCATION = tile.keys;
    constants.DIMS_OF_CHUNK = tile.dims_of_chunk;
    constants.KEYS_OF_CHUNK = tile.keys_of_chunk;
    constants.READS_AHEAD = tile.reads_ahead ? 1 : 0;
    return constants;
}

namespace {

// How shaders/kernels/backward/matrix_tiles.glsl divides a problem.
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

const Shader &matrix_shader(const AttentionProblem &problem, const DeviceCaps &caps, BackwardSums sums) {
    const bool of_queries = sums == BackwardSums::kQueries;
    if (problem.query.type == VKATTN_TYPE_BF16)
        return of_queries ? shaders::backward_queries_coopmat_bf16 : shaders::backward_keys_coopmat_bf16;
    const bool rolled = caps.traits.unroll_matrices == 0 && is_built(shaders::backward_queries_coopmat_rolled);
    if (rolled) return of_queries ? shaders::backward_queries_coopmat_rolled : shaders::backward_keys_coopmat_rolled;
    return of_queries ? shaders::backward_queries_coopmat : shaders::backward_keys_coopmat;
}

// Rows of 16 bits in whole vectors, all of one type; dropout that does not make f16 weights too large; loops of any length.
bool suits_matrices(const AttentionProblem &problem, const vkattn_tensor &d_output, const DeviceCaps &caps) {
    constexpr float kMostDropout = 0.9f;
    const vkattn_type type = problem.query.type;
    return is_in_halves(problem) && problem.key.type == type && problem.value.type == type && d_output.type == type &&
           rows_are_aligned(problem, d_output, problem.batch_invariant) && problem.dropout_p <= kMostDropout &&
           caps.max_loop_iterations == 0 && caps.traits.matrix_units == 1 &&
           matrices_beside_loads(caps) >
               1 && // where registers hold own rows and sums: Intel's compiler spills hundreds
           rows_that_share_keys(problem) >= caps.traits.fewest_matrix_rows &&
           *obstacle_of_matrices(caps) == '\0';
}

} // namespace

BackwardMatrices backward_matrices(const AttentionProblem &problem, const vkattn_tensor &d_output,
                                   const DeviceCaps &caps, BackwardSums sums) {
    constexpr uint32_t kMostSumsOfInvocation = 160, kSubgroups = 4;
    const Shader &shader = matrix_shader(problem, caps, sums);
    if (!suits_matrices(problem, d_output, caps) || !is_built(shader)) return {};
    const MatrixUse use{&shader, problem.query.type, 0};
    if (!matrix_obstacle(caps, use).empty()) return {};
    const vkattn_matrix_shape &shape = *largest_matrix_shape(caps, use);
    const uint32_t dims = std::max(problem.head_dim, problem.v_head_dim), rows = dims > 128 ? 16 : 32;
    MatrixBackwardTile tile{.shape = shape,
                            .subgroup_size = matrix_layout(caps, shape, dims).subgroup_size,
                            .subgroups = kSubgroups,
                            .own_in_registers = dims <= 128,
                            .passing = round_up(rows, std::max({shape.n, shape.k, 8u}))};
    const bool is_whole = tile.passing % shape.n == 0 && tile.passing % shape.k == 0 &&
                          shape.m * tile.passing / 2 % (2 * tile.subgroup_size) == 0;
    if (!is_whole) return {};
    const auto fits = [&] {
        return shared_bytes(problem, tile, sums) <= caps.max_shared_memory_bytes &&
               tile.subgroups * tile.subgroup_size <= caps.max_workgroup_invocations &&
               (caps.max_workgroup_subgroups == 0 || tile.subgroups <= caps.max_workgroup_subgroups);
    };
    while (!fits() && tile.subgroups > 2) tile.subgroups /= 2;
    const uint32_t matrices = sums_of_subgroup(problem, tile, sums);
    if (!fits() || matrices * shape.m * shape.n / tile.subgroup_size > kMostSumsOfInvocation) return {};
    gpu::AttentionConstants constants = constants_of(problem, tile.subgroups * tile.subgroup_size);
    constants.MATRIX_M = shape.m;
    constants.MATRIX_N = shape.n;
    constants.MATRIX_K = shape.k;
    constants.SUBGROUP_SIZE = tile.subgroup_size;
    constants.KEYS_OF_TILE = tile.passing;
    constants.QUERY_IN_REGISTERS = tile.own_in_registers ? 1 : 0;
    return {&shader, constants, tile.own()};
}

// Measured on llvmpipe 26, of D 64 and 128.
AddressedBackwardTile addressed_backward_tile(const AttentionProblem &problem, const DeviceCaps &caps,
                                              BackwardSums sums) {
    constexpr uint32_t kOwn = 16;
    const bool large = sums == BackwardSums::kKeys && std::max(problem.head_dim, problem.v_head_dim) > 96;
    return {std::max(kOwn / caps.subgroup_size, 1u) * caps.subgroup_size, large ? 6u : 8u};
}

bool has_backward_addresses(const DeviceCaps &caps) {
    return is_built(shaders::backward_queries_addresses) && caps.traits.scalar_address_loads != 0 &&
           caps.buffers_have_addresses != 0 && *obstacle_of_arrays(caps) == '\0';
}

// Not lists of keys; nor packed sequences where neighbours must not count: a last step takes rows of them that it does not need.
bool suits_backward_addresses(const AttentionProblem &problem, const DeviceCaps &caps, BackwardSums sums) {
    constexpr uint32_t kElements = 4, kMostDims = 256; // larger heads take a CPU driver seconds to compile
    const uint64_t passing = sums == BackwardSums::kQueries ? problem.key.shape[2] : problem.query.shape[2];
    const uint64_t iterations = sums == BackwardSums::kQueries ? slots_of(problem) : rows_of(problem);
    return has_backward_addresses(caps) && !present(problem.key_indices) &&
           (!problem.batch_invariant || !present(problem.cu_seqlens_q)) && problem.head_dim % kElements == 0 &&
           problem.v_head_dim % kElements == 0 && std::max(problem.head_dim, problem.v_head_dim) <= kMostDims &&
           passing >= addressed_backward_tile(problem, caps, sums).step &&
           (caps.max_loop_iterations == 0 || iterations <= caps.max_loop_iterations);
}

bool passes_in_place(const AttentionProblem &problem, const vkattn_tensor &rows) {
    return rows.type == VKATTN_TYPE_F32 && rows_are_in_blocks(problem, rows);
}

gpu::AttentionConstants backward_constants(const AttentionProblem &problem, const AddressedBackwardTile &tile,
                                           const vkattn_tensor &first, const vkattn_tensor &second) {
    gpu::AttentionConstants constants = constants_of(problem, tile.workgroup);
    constants.STEP = tile.step;
    constants.KEY_ROW_BYTES = stride_bytes(first, 2);
    constants.VALUE_ROW_BYTES = stride_bytes(second, 2);
    return constants;
}

uint32_t passing_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, const BackwardTile &tile,
                             uint64_t all, uint32_t iterations_of_tile) {
    if (caps.max_loop_iterations == 0) return static_cast<uint32_t>(all);
    if (present(problem.block_mask)) return keys_of_dispatch(problem, caps, tile.passing());
    return std::max(caps.max_loop_iterations / iterations_of_tile, 1u) * tile.passing();
}

} // namespace vkattn
