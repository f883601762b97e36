#include "runtime/kernels/flash.hpp"

#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

namespace vkattn {
namespace {

uint64_t workgroups_of(const AttentionProblem &problem, const FlashTile &tile) {
    return uint64_t{tiles(rows_of(problem), rows_of_tile(tile))} * problem.kv_heads * problem.batch;
}

// Without matrix units a key takes longer, and its part of a merge is the less of it.
constexpr double kCostOfFlashPart = 0.3;

// One, where the number of parts may not follow the batch, the keys come in several dispatches, or are too few for two.
uint32_t parts_of(const AttentionProblem &problem, const DeviceCaps &caps, const FlashTile &tile) {
    if (problem.kv_len < 2 * kFewestKeysOfPart && problem.tile.parts == 0) return 1;
    if (problem.batch_invariant || keys_of_dispatch(problem, caps, keys_of_tile(tile)) < problem.kv_len) return 1;
    if (!may_take_parts(problem, caps, tile.shader->name)) return 1;
    return parts_that_pay(problem, caps,
                          {.count = workgroups_of(problem, tile),
                           .filling = caps.traits.parallel_workgroups,
                           .keys_of_tile = keys_of_tile(tile),
                           .cost_of_part = kCostOfFlashPart});
}

// Of fewer rows, where the device has room for three times as many workgroups.
FlashTile tile_that_fills(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kFewestRows = 2; // fewer cost more reads of keys than they save time
    const FlashTile tile = flash_tile(problem, caps);
    if (problem.batch_invariant) return tile;
    return halve_rows_while(
        problem.tile.knobs[kRowsKnob], tile, kFewestRows,
        [&](const FlashTile &each) { return 3 * workgroups_of(problem, each) <= caps.traits.parallel_workgroups; },
        [&](uint32_t rows) { return flash_tile(problem, caps, {.most_rows = rows}); });
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionShape shape{};
    FlashTile tile = tile_that_fills(problem, caps);
    shape.parts = parts_of(problem, caps, tile);
    if (shape.parts > 1) tile = flash_tile(problem, caps, {.parts = true, .most_rows = tile.rows});
    shape.keys_per_dispatch = keys_of_dispatch(problem, caps, keys_of_tile(tile));
    shape.dispatches[0] = flash_dispatch(problem, tile, shape.parts);
    finish_parts(problem, caps, shape);
    return {.rank = Rank::kTiles, .shape = shape};
}

constexpr uint32_t kRows[] = {1, 2, 4}, kKeys[] = {8, 16, 32, 64, 128}, kColumns[] = {8, 16, 32},
                   kStagings[] = {1, 2, 3}, kSharedBytes[] = {16 << 10, 24 << 10, 32 << 10, 48 << 10};
constexpr Knob kKnobs[] = {
    {"rows", kRows},                 // of an invocation
    {"keys", kKeys},                 // of a tile
    {"columns", kColumns},           // invocations that share a row of the output
    {"staging", kStagings},          // 1 + what shared memory holds of 16-bit K and V, see kStagings of flash_tile.cpp
    {"shared_bytes", kSharedBytes}}; // of a workgroup, about

constexpr const Shader *kShaders[] = {&shaders::flash, &shaders::flash_halves, &shaders::flash_wide_halves};

} // namespace

AttentionShape::Dispatch flash_dispatch(const AttentionProblem &problem, const FlashTile &tile, uint32_t parts) {
    AttentionShape::Dispatch dispatch{
        tile.shader,
        constants_of(problem, tile.workgroup),
        {tiles(rows_of(problem), rows_of_tile(tile)) * parts, problem.kv_heads, problem.batch}};
    dispatch.constants.ROWS = tile.rows;
    dispatch.constants.COLUMNS = tile.columns;
    dispatch.constants.KEYS_OF_INVOCATION = tile.keys;
    dispatch.constants.DIMS_OF_CHUNK = tile.dims_of_chunk;
    dispatch.constants.KEYS_OF_CHUNK = tile.keys_of_chunk;
    dispatch.constants.QUERY_STAGED = tile.query_staged ? 1 : 0;
    return dispatch;
}

std::string describe_flash(const AttentionShape &shape) {
    const gpu::AttentionConstants &c = shape.dispatches[0].constants;
    return text(c.WORKGROUP_SIZE / c.COLUMNS, " x ", c.COLUMNS, " invocations of ", c.ROWS, " x ", c.KEYS_OF_INVOCATION,
                " scores");
}

const AttentionKernel kFlash = {.kernel = VKATTN_KERNEL_FLASH,
                                .name = "flash",
                                .shaders = kShaders,
                                .merit = "nothing of size q_len x kv_len is asked for",
                                .batch_invariant = true,
                                .missing = obstacle_of_arrays,
                                .answer = answer,
                                .describe = describe_flash,
                                .knobs = kKnobs};

} // namespace vkattn
