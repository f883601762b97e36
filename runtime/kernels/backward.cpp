#include "runtime/kernels/backward.hpp"

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
    return kElement * (own * pitch + std::max(passing * pitch, tile.keys_of_chunk * sum_pitch(problem, tile))) +
           2 * sizeof(float) * own * passing + kNumbers * std::max(own, passing) + sizeof(uint32_t);
}

// As many as fit where the products' tile lies.
uint32_t keys_of_chunk(const AttentionProblem &problem, const BackwardTile &tile) {
    const uint64_t elements = tile.passing() * uint64_t{tile.dims_of_chunk / 4 + 1};
    return static_cast<uint32_t>(
        std::clamp(std::bit_floor(std::max<uint64_t>(elements / sum_pitch(problem, tile), 1)), uint64_t{1},
                   uint64_t{tile.passing()}));
}

} // namespace

BackwardTile backward_tile(const AttentionProblem &problem, const DeviceCaps &caps, BackwardSums sums) {
    BackwardTile tile{.workgroup = std::min(kWorkgroup, std::bit_floor(caps.max_workgroup_invocations)),
                      .columns = kColumns,
                      .rows = kMostRows,
                      .keys = kMostKeys,
                      .dims_of_chunk = kChunk,
                      .keys_of_chunk = 1};
    while (tile.rows > 1 && tile.rows * sums_of_row(problem, tile, sums) > kMostSums) tile.rows /= 2;
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
    return constants;
}

uint32_t passing_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, const BackwardTile &tile,
                             uint64_t all) {
    if (caps.max_loop_iterations == 0) return static_cast<uint32_t>(all);
    return keys_of_dispatch(problem, caps, tile.passing());
}

} // namespace vkattn
