#include "runtime/kernels/flash.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kVector = 8;                       // dims; what the shader stages at a time
constexpr uint32_t kFewestDims = 32, kFewestKeys = 4; // of a chunk; fewer dims where shared memory ends

constexpr const Shader *kStagings[] = {&shaders::flash, &shaders::flash_halves, &shaders::flash_wide_halves,
                                       &shaders::flash_dots, &shaders::flash_split}; // by StagedNumbers

bool is_of_dots(const Shader *shader) { return shader == &shaders::flash_dots; }

uint32_t element_dims(const Shader *shader) {
    return shader == &shaders::flash_wide_halves || is_of_dots(shader) ? 8 : 4;
}

uint64_t element_bytes(const Shader *shader) { return shader == &shaders::flash_halves ? 8 : 16; }

// Elements of V hold so many dims of so many keys.
uint32_t value_dims(const Shader *shader) { return is_of_dots(shader) ? 4 : element_dims(shader); }

uint32_t value_keys(const Shader *shader) { return is_of_dots(shader) ? 2 : 1; }

uint32_t fewest_keys_of_chunk(const Shader *shader) { return kFewestKeys * value_keys(shader); }

// What of K, V and Q the shaders may stage: see flash_layout.
struct Staging {
    bool halves, dots;
};

// With dots weights are f16, and what dropout multiplies them with may not fit.
Staging staging_of(const AttentionProblem &problem, const DeviceCaps &caps) {
    const bool halves = is_in_halves(problem);
    const bool f16 = problem.query.type == VKATTN_TYPE_F16 && problem.key.type == VKATTN_TYPE_F16 &&
                     problem.value.type == VKATTN_TYPE_F16;
    return {halves, halves && f16 && problem.dropout_p == 0 && *obstacle_of_dots(caps, shaders::flash_dots) == '\0'};
}

bool takes(const Staging &staging, const Shader *shader) {
    if (is_of_dots(shader)) return staging.dots;
    return staging.halves || shader == &shaders::flash || shader == &shaders::flash_split;
}

constexpr uint32_t kFewestColumns = 8, kMostColumns = 32, kFewestSharedBytes = 8 << 10;

uint32_t columns_for(uint32_t v_head_dim, uint32_t blocks) {
    return std::clamp(std::bit_ceil(tiles(v_head_dim, 4 * blocks)), kFewestColumns, kMostColumns);
}

uint64_t query_bytes(const AttentionProblem &problem, const FlashTile &tile) {
    const uint32_t dims = tile.query_staged ? round_up(problem.head_dim, tile.dims_of_chunk) : tile.dims_of_chunk;
    return rows_of_tile(tile) * (dims / element_dims(tile.shader) + 1) * element_bytes(tile.shader);
}

uint64_t key_bytes(const FlashTile &tile, uint32_t dims) {
    return keys_of_tile(tile) * (dims / element_dims(tile.shader) + 1) * element_bytes(tile.shader);
}

uint64_t value_bytes(const AttentionProblem &problem, const FlashTile &tile, uint32_t keys) {
    const uint32_t elements = tiles(problem.v_head_dim, value_dims(tile.shader));
    return keys / value_keys(tile.shader) * (round_up(elements, tile.columns) + uint64_t{1}) *
           element_bytes(tile.shader);
}

uint64_t weight_bytes(const FlashTile &tile) { return rows_of_tile(tile) * keys_of_tile(tile) * sizeof(float); }

uint64_t shared_bytes(const AttentionProblem &problem, const FlashTile &tile) {
    constexpr uint64_t kFlag = 4; // values_beyond_numbers
    const uint64_t columns = uint64_t{rows_of_tile(tile)} * tile.columns * sizeof(float);
    return kFlag + query_bytes(problem, tile) + weight_bytes(tile) +
           std::max({key_bytes(tile, tile.dims_of_chunk), value_bytes(problem, tile, tile.keys_of_chunk), columns});
}

// The most dims whose chunks have no more of them than K, within so many bytes; the fewest where none is.
uint32_t dims_of_chunk(const AttentionProblem &problem, const FlashTile &tile, uint64_t bytes, uint32_t fewest) {
    const uint32_t vectors = tiles(problem.head_dim, kVector);
    uint32_t dims = vectors * kVector;
    for (uint32_t chunks = 2; chunks <= vectors && key_bytes(tile, dims) > bytes; ++chunks)
        if (vectors % chunks == 0 && vectors / chunks * kVector >= fewest) dims = vectors / chunks * kVector;
    return dims;
}

// Chunks that make the most of what queries and weights leave of so many bytes.
void set_chunks(const AttentionProblem &problem, uint64_t bytes, uint32_t fewest_dims, FlashTile &tile) {
    tile.dims_of_chunk = kVector;
    const uint64_t taken = query_bytes(problem, tile) + weight_bytes(tile);
    const uint64_t room = bytes > taken ? bytes - taken : 0;
    tile.dims_of_chunk = dims_of_chunk(problem, tile, tile.query_staged ? room : room / 2, fewest_dims);
    const uint64_t most = std::max(room, key_bytes(tile, tile.dims_of_chunk));
    tile.keys_of_chunk = keys_of_tile(tile);
    while (tile.keys_of_chunk > fewest_keys_of_chunk(tile.shader) &&
           value_bytes(problem, tile, tile.keys_of_chunk) > most)
        tile.keys_of_chunk /= 2;
}

// Queries that stay in shared memory, and chunks, as far as they fit into so many bytes and an eighth more.
void set_tiles(const AttentionProblem &problem, uint64_t bytes, FlashTile &tile) {
    tile.query_staged = true;
    set_chunks(problem, bytes, kFewestDims, tile);
    if (shared_bytes(problem, tile) <= bytes + bytes / 8) return;
    tile.query_staged = false;
    for (uint32_t dims = kFewestDims; dims >= kVector; dims /= 2) {
        set_chunks(problem, bytes, dims, tile);
        if (shared_bytes(problem, tile) <= bytes) return;
    }
}

void fit(const AttentionProblem &problem, uint64_t wanted_bytes, const DeviceCaps &caps, FlashTile &tile) {
    constexpr uint64_t kReached = 64 << 10; // by the shader's indices, of 8192 elements
    const uint64_t limit = std::min<uint64_t>(caps.max_shared_memory_bytes, kReached);
    set_tiles(problem, std::min(wanted_bytes, limit * 8 / 9), tile);
    while (shared_bytes(problem, tile) > limit && tile.rows * tile.keys > value_keys(tile.shader)) {
        (tile.rows > 1 ? tile.rows : tile.keys) /= 2;
        set_tiles(problem, limit * 8 / 9, tile);
    }
}

// No more rows than the problem has, as long as the workgroup fills a subgroup.
void drop_empty_rows(const AttentionProblem &problem, const DeviceCaps &caps, bool keep_rows, FlashTile &tile) {
    if (problem.batch_invariant) return;
    const uint64_t rows = rows_that_share_keys(problem);
    while (!keep_rows && tile.rows > 1 && rows_of_tile(tile) / 2 >= rows) tile.rows /= 2;
    while (rows_of_tile(tile) / 2 >= rows && tile.workgroup / 2 >= std::max(caps.subgroup_size, tile.columns))
        tile.workgroup /= 2;
}

// The shader, or the first in its place that the self-test has not ruled out.
const Shader *sound_shader(const Shader *wanted, const Staging &staging, const DeviceCaps &caps, CodePaths paths) {
    const auto is_sound = [&](const Shader *shader) { return takes(staging, shader) && !is_off(caps, *shader, paths); };
    if (is_sound(wanted)) return wanted;
    const auto *found = std::ranges::find_if(kStagings, is_sound);
    return found == std::end(kStagings) ? wanted : *found;
}

// What tuning found, as far as the shader can take it.
void take_tuned(const KernelTile &tuned, const Staging &can, FlashTile &tile) {
    static constexpr uint32_t kMost = 4;
    const auto power = [](uint32_t wanted) { return std::bit_floor(std::clamp(wanted, 1u, kMost)); };
    const auto &knobs = tuned.knobs;
    const uint32_t staging = knobs[kStagingKnob];
    if (knobs[kColumnsKnob] != 0)
        tile.columns = std::bit_floor(std::clamp(knobs[kColumnsKnob], kFewestColumns, kMostColumns));
    if (knobs[kRowsKnob] != 0) tile.rows = power(knobs[kRowsKnob]);
    if (knobs[kKeysKnob] != 0) tile.keys = power(knobs[kKeysKnob] / tile.columns);
    if (staging != 0 && staging <= std::size(kStagings) && takes(can, kStagings[staging - 1]))
        tile.shader = kStagings[staging - 1];
}

// Of as many rows of an invocation as the problem has, and the kernel takes.
FlashLayout layout_of(const AttentionProblem &problem, const DeviceCaps &caps, const Staging &staging,
                      uint32_t most_rows) {
    FlashNeeds needs{staging.halves, staging.dots, most_rows, problem.v_head_dim};
    const FlashLayout layout = flash_layout(caps, needs);
    const uint32_t rows_of_group = std::max(layout.workgroup / columns_for(problem.v_head_dim, layout.blocks), 1u);
    if (problem.batch_invariant) return layout;
    const uint64_t rows = std::bit_ceil(divide_up(uint64_t{rows_that_share_keys(problem)}, uint64_t{rows_of_group}));
    needs.rows = static_cast<uint32_t>(std::min<uint64_t>(rows, most_rows));
    return flash_layout(caps, needs);
}

} // namespace

FlashTile flash_tile(const AttentionProblem &problem, const DeviceCaps &caps, const FlashUse &use) {
    const Staging staging = staging_of(problem, caps);
    const FlashLayout layout = layout_of(problem, caps, staging, use.most_rows);
    FlashTile tile{.shader = kStagings[static_cast<size_t>(layout.staging)],
                   .workgroup = std::min(layout.workgroup, std::bit_floor(caps.max_workgroup_invocations)),
                   .columns = columns_for(problem.v_head_dim, layout.blocks),
                   .rows = std::min(layout.rows, use.most_rows),
                   .keys = std::min(layout.keys, use.most_keys),
                   .dims_of_chunk = kVector,
                   .keys_of_chunk = kFewestKeys,
                   .query_staged = true};
    take_tuned(problem.tile, staging, tile);
    if (!takes(staging, tile.shader)) tile.shader = &shaders::flash;
    tile.shader = sound_shader(tile.shader, staging, caps, paths_of(problem) | (use.parts ? kPathParts : 0));
    tile.keys = std::max(tile.keys, value_keys(tile.shader));
    drop_empty_rows(problem, caps, problem.tile.knobs[kRowsKnob] != 0, tile);
    const uint32_t wanted_bytes = problem.tile.knobs[kSharedBytesKnob];
    fit(problem, wanted_bytes == 0 ? layout.shared_bytes : std::max(wanted_bytes, kFewestSharedBytes), caps, tile);
    return tile;
}

namespace {

// That have rows.
uint64_t busy_workgroups(const AttentionProblem &problem, const FlashTile &tile) {
    return busy_row_tiles(problem, rows_of_tile(tile)) * problem.kv_heads * grid_sequences(problem);
}

// Without matrix units a key takes longer, and its part of a merge is the less of it.
constexpr double kCostOfFlashPart = 0.3;

// One, where the number of parts may not follow the batch, the keys come in several dispatches, or are too few for two.
uint32_t parts_of(const AttentionProblem &problem, const DeviceCaps &caps, const FlashTile &tile) {
    if (slots_of(problem) < 2 * kFewestKeysOfPart && problem.tile.parts == 0) return 1;
    if (problem.batch_invariant || keys_of_dispatch(problem, caps, keys_of_tile(tile)) < slots_of(problem)) return 1;
    if (!may_take_parts(problem, caps, tile.shader->name)) return 1;
    const uint64_t count = row_tiles(problem, rows_of_tile(tile)) * problem.kv_heads * grid_sequences(problem);
    return parts_that_pay(problem, caps,
                          {.count = count,
                           .filling = caps.traits.parallel_workgroups,
                           .keys_of_tile = keys_of_tile(tile),
                           .cost_of_part = kCostOfFlashPart,
                           .empty = count - busy_workgroups(problem, tile)});
}

// Of fewer rows, where the device has room for three times as many workgroups.
FlashTile tile_that_fills(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kFewestRows = 2; // fewer cost more reads of keys than they save time
    const FlashTile tile = flash_tile(problem, caps);
    if (problem.batch_invariant) return tile;
    return halve_rows_while(
        problem.tile.knobs[kRowsKnob], tile, kFewestRows,
        [&](const FlashTile &each) { return 3 * busy_workgroups(problem, each) <= caps.traits.parallel_workgroups; },
        [&](uint32_t rows) { return flash_tile(problem, caps, {.most_rows = rows}); });
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    if (const char *lists = obstacle_of_lists(problem, caps); *lists != '\0')
        return {.rank = Rank::kTiles, .obstacle = lists};
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
                   kStagingsToTry[] = {1, 2, 3, 4, 5}, kSharedBytes[] = {16 << 10, 24 << 10, 32 << 10, 48 << 10};
constexpr Knob kKnobs[] = {{"rows", kRows},             // of an invocation
                           {"keys", kKeys},             // of a tile
                           {"columns", kColumns},       // invocations that share a row of the output
                           {"staging", kStagingsToTry}, // 1 + what shared memory holds of 16-bit K and V, see kStagings
                           {"shared_bytes", kSharedBytes}}; // of a workgroup, about

constexpr const Shader *kShaders[] = {&shaders::flash, &shaders::flash_halves, &shaders::flash_wide_halves,
                                      &shaders::flash_dots, &shaders::flash_split};

} // namespace

AttentionShape::Dispatch flash_dispatch(const AttentionProblem &problem, const FlashTile &tile, uint32_t parts) {
    AttentionShape::Dispatch dispatch{
        tile.shader,
        constants_of(problem, tile.workgroup),
        {tiles(row_tiles(problem, rows_of_tile(tile)), 1) * parts, problem.kv_heads, grid_sequences(problem)}};
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
                                .merit = "online softmax, which stores no scores",
                                .batch_invariant = true,
                                .missing = obstacle_of_arrays,
                                .answer = answer,
                                .describe = describe_flash,
                                .knobs = kKnobs};

} // namespace vkattn
