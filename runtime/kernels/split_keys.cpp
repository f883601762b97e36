#include "runtime/kernels/split_keys.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/vulkan/variant.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace vkattn {
namespace {

constexpr uint32_t kStateHeader = 4; // numbers before the output's, see shaders/attention/states.glsl

// Blocks of four elements that a workgroup of merge_parts joins at a time.
uint32_t blocks_of_merge(const AttentionProblem &problem) {
    return std::clamp(round_up(tiles(problem.v_head_dim, 4), 32u), 32u, 128u);
}

// Parts, at most, of however many keys: as many as fill the device. What follows from them, and not from the parts of these
// keys, compiles nothing new as a context grows.
uint32_t most_parts(const AttentionProblem &problem, const DeviceCaps &caps, const AttentionShape &shape) {
    if (problem.tile.parts != 0) return shape.parts;
    const AttentionShape::Dispatch &first = shape.dispatches[0];
    const uint64_t workgroups = uint64_t{first.groups[0]} * first.groups[1] * first.groups[2] / shape.parts;
    const uint64_t invocations = std::max<uint64_t>(workgroups * first.constants.WORKGROUP_SIZE, 1);
    return static_cast<uint32_t>(std::max<uint64_t>(divide_up(invocations_that_fill(caps), invocations), 2));
}

// Invocations that share a block's parts: as many loads are under way at the same time. None where the rows' own invocations
// fill the device many times over, or have few parts: then sharing gains nothing and costs the joining of what was shared.
uint32_t columns_of_merge(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t blocks, uint32_t parts) {
    constexpr uint64_t kTimes = 16;
    const uint64_t rows = problem.query_heads * query_positions(problem);
    if (rows * blocks >= kTimes * invocations_that_fill(caps)) return 1;
    const uint32_t most = std::min(caps.max_workgroup_invocations / blocks, most_merge_columns(caps));
    return std::bit_floor(std::clamp(parts / PARTS_AT_ONCE, 1u, std::max(most, 1u)));
}

// Dims of a key and its value, in those of heads of 128.
double dims_of_usual_heads(const AttentionProblem &problem) {
    constexpr double kUsual = 2 * 128;
    return (problem.head_dim + problem.v_head_dim) / kUsual;
}

vkattn_tensor states_of(const AttentionProblem &problem, uint32_t parts) {
    const uint32_t size = kStateHeader + (problem.v_head_dim + 3) / 4 * 4;
    return contiguous(VKATTN_TYPE_F32, {query_positions(problem), problem.query_heads, parts, size});
}

// Of so many keys those that a row visits, at most. Whole tiles are visited where a window ends within them.
uint64_t visited_keys(const AttentionProblem &problem, uint64_t keys) {
    constexpr uint64_t kTiles = 512; // rows and keys of the largest tiles
    const int32_t right = problem.causal ? 0 : problem.window_right;
    if (!problem.windowed || problem.window_left < 0 || right < 0) return keys;
    return std::min(keys, uint64_t{kTiles} + static_cast<uint32_t>(problem.window_left) + static_cast<uint32_t>(right));
}

// Operations over so many keys.
double flops_of(const AttentionProblem &problem, uint64_t keys) {
    return 2.0 * static_cast<double>(query_positions(problem)) * problem.query_heads *
           static_cast<double>(visited_keys(problem, keys)) * (problem.head_dim + problem.v_head_dim);
}

// Keys of a row that parts are made for. Of prompts whose decodes, which may have many more, are attended apart, between those of a
// prompt with none before it and those of the longest.
double usual_slots(const AttentionProblem &problem) {
    const double all = slots_of(problem);
    return !is_of_prompts(problem) ? all : std::min(all, std::sqrt(all * problem.q_len));
}

// Whether workgroups take about the same time, each at work rather than waiting for memory as where one has all rows of its keys.
bool take_turns(const AttentionProblem &problem, const PartWorkgroups &workgroups) {
    constexpr uint32_t kTimes = 4; // keys of queries: the first of fewer sees much less of them than the last
    if (workgroups.few_rows != 0 || workgroups.count <= uint64_t{problem.kv_heads} * problem.batch) return false;
    if (problem.windowed || present(problem.block_mask)) return false;
    return !problem.causal || usual_slots(problem) >= double{kTimes} * problem.q_len;
}

// Returns the number of tiles of a part, near tiles_of_part, that leaves the fewest cores idle in the last round: n workgroups take
// ceil(n / cores) rounds (as num_splits_heuristic of FlashAttention has it).
uint32_t tiles_in_whole_rounds(const AttentionProblem &problem, const DeviceCaps &caps,
                               const PartWorkgroups &workgroups, uint32_t tiles_of_part) {
    const uint32_t all_tiles = tiles(static_cast<uint64_t>(usual_slots(problem)), workgroups.keys_of_tile);
    const uint64_t cores = std::max(cores_of(caps.traits), 1u);
    const auto workgroups_of = [&](uint32_t each) {
        return (workgroups.count - workgroups.empty) * tiles(all_tiles, each);
    };
    const auto time_of = [&](uint32_t each) { return divide_up(workgroups_of(each), cores) * each; };
    if (!take_turns(problem, workgroups) || workgroups_of(tiles_of_part) <= cores) return tiles_of_part;
    uint32_t best = tiles_of_part;
    const uint32_t fewest = tiles(all_tiles, tiles_of_part + tiles_of_part / 2);
    const uint32_t most = tiles(all_tiles, tiles(2 * tiles_of_part, 3));
    for (uint32_t parts = fewest; parts <= most; ++parts)
        if (const uint32_t each = tiles(all_tiles, parts); time_of(each) < time_of(best)) best = each;
    return 10 * time_of(best) <= 9 * time_of(tiles_of_part) ? best : tiles_of_part;
}

// The tiles of the first dispatch's grid, of which packed sequences differ in work: each of the dispatches that share it takes
// as many, and so the grid may become larger by a few.
void share_tiles(const DeviceCaps &caps, AttentionShape &shape) {
    AttentionShape::Dispatch &first = shape.dispatches[0];
    const uint32_t all = first.groups[0] / shape.parts;
    shape.parameters.row_tiles = shape.parameters.tiles_of_dispatch = all;
    if ((first.constants.FEATURES & FEATURE_CU_SEQLENS_Q) == 0) return;
    const Grid dispatches = dispatches_along(first.groups, grid_of_dispatch(first.groups, first.flops, caps));
    const uint64_t sharing = uint64_t{dispatches[0]} * dispatches[1]; // KV heads too: see row_tile_of_grid
    shape.parameters.tiles_of_dispatch = static_cast<uint32_t>(divide_up(uint64_t{all}, sharing));
    shape.parameters.row_tiles = round_up(all, shape.parameters.tiles_of_dispatch);
    first.groups[0] = shape.parameters.row_tiles * shape.parts;
}

// What merge_parts needs to know of a problem.
CodePaths merge_paths_of(CodePaths paths) { return kPathParts | (paths & kPathLargeHeads); }

} // namespace

bool states_fit(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t parts) {
    return is_bindable(caps, states_of(problem, parts));
}

bool may_take_parts(const AttentionProblem &problem, const DeviceCaps &caps, std::string_view shader) {
    return why_off(caps, shader, kPathParts).empty() &&
           !is_off(caps, shaders::merge_parts, merge_paths_of(paths_of(problem)));
}

uint32_t keys_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t keys_of_tile) {
    if (caps.max_loop_iterations == 0) return slots_of(problem);
    return present(problem.block_mask) ? keys_of_tile : round_up(kKeysOfBoundedLoops, keys_of_tile);
}

uint32_t parts_between(const AttentionProblem &problem, uint64_t rule, uint64_t fewest) {
    const uint64_t most = std::max(slots_of(problem) / kKeysOfGranule, 1u);
    const uint64_t wanted = problem.tile.parts == 0 ? rule : std::min<uint64_t>(problem.tile.parts, most);
    return static_cast<uint32_t>(std::max(wanted, fewest));
}

uint32_t parts_that_fit(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t parts, uint32_t fewest) {
    while (parts > fewest && !states_fit(problem, caps, parts)) parts = std::max(parts / 2, fewest);
    return parts;
}

uint32_t fewest_keys_of_part(const AttentionProblem &problem, const PartWorkgroups &workgroups) {
    if (workgroups.few_rows == 0) return kFewestKeysOfPart;
    return static_cast<uint32_t>(kFewestKeysOfPart / (2 * std::max(dims_of_usual_heads(problem), 1.0)));
}

// Where a workgroup has few rows, their states are small, and a part costs little more than a load of the merge, however many
// workgroups it is: as long as they leave the device idle, p = sqrt(keys / c). Keys of larger heads are more work.
double keys_that_pay(const AttentionProblem &problem, const PartWorkgroups &workgroups) {
    constexpr double kCostOfEmpty = 0.1; // of a prompt's dispatch beside 256 decodes, on navi31
    const uint64_t busy = std::max<uint64_t>(workgroups.count - workgroups.empty, 1);
    const auto filling = static_cast<double>(divide_up(workgroups.filling, busy));
    const double count = static_cast<double>(busy) + kCostOfEmpty * static_cast<double>(workgroups.empty);
    double parts = std::sqrt(usual_slots(problem) / (workgroups.cost_of_part * count));
    if (workgroups.few_rows != 0) {
        const double of_idle_device =
            std::sqrt(usual_slots(problem) * dims_of_usual_heads(problem) / workgroups.cost_of_part);
        parts = std::max(parts, std::min(of_idle_device, filling));
    }
    return usual_slots(problem) / std::max(std::min(parts, filling), 1.0);
}

uint32_t parts_that_pay(const AttentionProblem &problem, const DeviceCaps &caps, const PartWorkgroups &workgroups) {
    const uint32_t tile = workgroups.keys_of_tile;
    const uint32_t fewest_keys = fewest_keys_of_part(problem, workgroups);
    const auto that_pay = static_cast<uint32_t>(std::max(std::lround(keys_that_pay(problem, workgroups) / tile), 1L));
    const uint32_t tiles_of_part = tiles_in_whole_rounds(problem, caps, workgroups, that_pay);
    const uint32_t fewest = tiles(slots_of(problem), keys_of_dispatch(problem, caps, tile));
    const uint32_t rule =
        tiles(static_cast<uint64_t>(usual_slots(problem)), std::max(tiles_of_part * tile, fewest_keys));
    return parts_that_fit(problem, caps, parts_between(problem, rule, fewest), fewest);
}

void finish_parts(const AttentionProblem &problem, const DeviceCaps &caps, AttentionShape &shape) {
    AttentionShape::Dispatch &first = shape.dispatches[0];
    shape.parameters = parameters_of(problem);
    first.paths = paths_of(problem) | (shape.parts > 1 ? kPathParts : 0);
    if (shape.keys_per_dispatch < slots_of(problem)) {
        first.constants.FEATURES |= FEATURE_SPLIT_KEYS;
        first.paths |= kPathStretches;
    }
    first.flops = flops_of(problem, shape.keys_per_dispatch);
    share_tiles(caps, shape);
    if (shape.parts > 1 || shape.keys_per_dispatch < slots_of(problem)) shape.scores = states_of(problem, shape.parts);
    if (shape.parts == 1) return;
    shape.parameters.parts = shape.parts;
    first.constants.FEATURES |= FEATURE_PARTS;
    const uint32_t blocks = blocks_of_merge(problem);
    const uint32_t columns = columns_of_merge(problem, caps, blocks, most_parts(problem, caps, shape));
    shape.dispatches[1] = {&shaders::merge_parts,
                           constants_of(problem, blocks * columns),
                           {tiles(sequence_tiles(problem, 1, 1), 1), problem.query_heads, grid_sequences(problem)},
                           merge_paths_of(first.paths),
                           kFlopsOfElement * static_cast<double>(extent_elements(shape.scores))};
    gpu::AttentionConstants &merge = shape.dispatches[1].constants;
    merge.COLUMNS = columns;
    merge.FEATURES |= FEATURE_PARTS;
    if (problem.variant != nullptr && problem.variant->variant->defines(shaders::merge_parts.calls)) return;
    merge.FEATURES &= FEATURES_OF_MERGE_PARTS; // the functions of a variant count positions, by more
    merge.MORE_FEATURES = 0;
}

AttentionShape shape_of_row_tiles(const AttentionProblem &problem, const DeviceCaps &caps, const Shader &shader,
                                  const gpu::AttentionConstants &constants, uint32_t rows) {
    const uint32_t row_tiles = tiles(vkattn::row_tiles(problem, rows), 1);
    const uint64_t of_tile = uint64_t{problem.kv_heads} * grid_sequences(problem), count = row_tiles * of_tile;
    const uint64_t busy = busy_row_tiles(problem, rows) * of_tile;
    const bool fills_cores =
        busy * kWorkgroupsOfCore >= caps.traits.parallel_workgroups; // parts would only leave states
    const uint32_t keys = constants.KEYS_OF_TILE;
    AttentionShape shape{};
    shape.keys_per_dispatch = slots_of(problem);
    shape.parts = may_take_parts(problem, caps, shader_name(shader, constants))
                      ? parts_that_pay(problem, caps,
                                       {.count = count,
                                        .filling = fills_cores ? busy : caps.traits.parallel_workgroups,
                                        .keys_of_tile = keys,
                                        .empty = count - std::min(busy, count)})
                      : tiles(slots_of(problem), keys_of_dispatch(problem, caps, keys));
    shape.dispatches[0] = {&shader, constants, {row_tiles * shape.parts, problem.kv_heads, grid_sequences(problem)}};
    finish_parts(problem, caps, shape);
    return shape;
}

} // namespace vkattn
