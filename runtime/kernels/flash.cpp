#include "runtime/kernels/flash.hpp"

#include "runtime/kernels/emit.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kPitch = 9;  // vectors of four; PITCH of shaders/kernels/flash.comp
constexpr uint32_t kChunk = 32; // dims; CHUNK of shaders/kernels/flash.comp
constexpr uint32_t kSums = 64;  // numbers of the output that an invocation holds

uint64_t shared_bytes(uint32_t rows) {
    const uint64_t tile_rows = uint64_t{rows} * kMostRowGroups;
    constexpr uint64_t kVector = 4 * sizeof(float);
    return kPitch * (2 * tile_rows * kVector + tile_rows * sizeof(float) + KEYS_OF_FLASH_TILE * kVector);
}

// Four rows share each load of K and V from shared memory, unless their sums need too many registers, the tile too much
// shared memory, or the problem has no more rows. Tuning may think otherwise of all but shared memory.
uint32_t rows_of_invocation(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kMostRows = 4;
    const bool tuned = problem.tile.rows != 0;
    const uint32_t sums_of_row = tiles(problem.v_head_dim, kChunk) * 4;
    uint32_t rows = tuned ? std::bit_floor(std::min(problem.tile.rows, kMostRows)) : kMostRows;
    const auto is_poor = [&] {
        return rows * sums_of_row > kSums ||
               (!problem.batch_invariant && rows / 2 * kMostRowGroups >= rows_of(problem));
    };
    while (rows > 1 && (shared_bytes(rows) > caps.max_shared_memory_bytes || (!tuned && is_poor()))) rows /= 2;
    return rows;
}

// No more than the problem has rows, as long as the workgroup fills a subgroup.
uint32_t row_groups(const AttentionProblem &problem, const DeviceCaps &caps) {
    uint32_t groups = kMostRowGroups;
    if (problem.batch_invariant) return groups;
    while (groups / 2 >= rows_of(problem) && groups / 2 * COLUMNS_OF_FLASH_TILE >= caps.subgroup_size) groups /= 2;
    return groups;
}

std::string obstacle(const AttentionProblem &problem, const DeviceCaps &) { return obstacle_of_scores(problem); }

uint32_t rank(const AttentionProblem &, const DeviceCaps &) { return 50; }

AttentionShape shape(const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionShape shape{};
    shape.parts = 1;
    shape.keys_per_dispatch = keys_of_dispatch(problem, caps, KEYS_OF_FLASH_TILE);
    shape.dispatches[0] = flash_dispatch(problem, flash_tile(problem, caps), 1);
    finish_parts(problem, caps, VKATTN_KERNEL_FLASH, true, shape);
    return shape;
}

} // namespace

FlashTile flash_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    return {rows_of_invocation(problem, caps), row_groups(problem, caps)};
}

AttentionShape::Dispatch flash_dispatch(const AttentionProblem &problem, const FlashTile &tile, uint32_t parts) {
    AttentionShape::Dispatch dispatch{
        Module::kFlash,
        constants_of(problem, tile.row_groups * COLUMNS_OF_FLASH_TILE),
        {tiles(rows_of(problem), tile.rows * tile.row_groups) * parts, problem.kv_heads, problem.batch}};
    dispatch.constants.ROWS = tile.rows;
    return dispatch;
}

std::string describe_flash(const AttentionShape &shape) {
    const uint32_t rows = shape.dispatches[0].constants.ROWS;
    return text(rows, rows == 1 ? " row" : " rows");
}

std::string obstacle_of_scores(const AttentionProblem &problem) {
    if (present(problem.attn_weights)) return "keeps no attn_weights";
    return present(problem.qk_matmul_output) ? "keeps no qk_matmul_output" : "";
}

const AttentionKernel kFlash = {.kernel = VKATTN_KERNEL_FLASH,
                                .merit = "nothing of size q_len x kv_len is asked for",
                                .missing = obstacle_of_arrays,
                                .obstacle = obstacle,
                                .rank = rank,
                                .shape = shape,
                                .describe = describe_flash,
                                .emit = emit_split_keys};

} // namespace vkattn
