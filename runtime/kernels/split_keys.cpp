#include "runtime/kernels/split_keys.hpp"

#include "runtime/kernels/parameters.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

constexpr uint32_t kStateHeader = 4; // STATE_HEADER of shaders/attention/states.glsl

// An invocation of merge_parts joins one block of four elements, where a workgroup may have so many.
uint32_t merge_workgroup(const AttentionProblem &problem) {
    return std::clamp(round_up(tiles(problem.v_head_dim, 4), 32u), 32u, 128u);
}

vkattn_tensor states_of(const AttentionProblem &problem, uint32_t parts) {
    const uint32_t size = kStateHeader + (problem.v_head_dim + 3) / 4 * 4;
    return contiguous(VKATTN_TYPE_F32, {uint64_t{problem.batch} * problem.query_heads, problem.q_len, parts, size});
}

// Of so many keys those that a row visits, at most. Whole tiles are visited where a window ends within them.
uint64_t visited_keys(const AttentionProblem &problem, uint64_t keys) {
    constexpr uint64_t kTiles = 512; // rows and keys of the largest tiles
    const int32_t right = problem.causal ? 0 : problem.window_right;
    if (!problem.windowed || problem.window_left < 0 || right < 0) return keys;
    return std::min(keys, uint64_t{kTiles} + static_cast<uint32_t>(problem.window_left) + static_cast<uint32_t>(right));
}

// Operations over so many keys.
double flops_of(const AttentionProblem &problem, const DeviceCaps &caps, uint64_t keys) {
    const double flops_of_position = 2.0 * problem.query_heads * static_cast<double>(visited_keys(problem, keys)) *
                                     (problem.head_dim + problem.v_head_dim);
    const uint64_t positions = uint64_t{problem.batch} * problem.q_len;
    const double flops = static_cast<double>(positions) * flops_of_position;
    if (!present(problem.cu_seqlens_q)) return flops;
    // Packed sequences have fewer rows than batch * q_len. But which of them are the long ones nobody knows here: where
    // the grid must be divided, each may be.
    const double packed = static_cast<double>(std::min(positions, problem.query.shape[2])) * flops_of_position;
    return packed <= caps.traits.max_dispatch_megaflops * 1e6 ? packed : flops;
}

// What merge_parts needs to know of a problem.
CodePaths merge_paths_of(CodePaths paths) { return kPathParts | (paths & kPathLargeHeads); }

} // namespace

bool may_take_parts(const AttentionProblem &problem, const DeviceCaps &caps, std::string_view shader) {
    return why_off(caps, shader, kPathParts).empty() &&
           !is_off(caps, Module::kMergeParts, merge_paths_of(paths_of(problem)));
}

uint32_t keys_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t keys_of_tile) {
    if (caps.max_loop_iterations == 0) return problem.kv_len;
    return present(problem.block_mask) ? keys_of_tile : round_up(kKeysOfBoundedLoops, keys_of_tile);
}

uint32_t parts_between(const AttentionProblem &problem, uint64_t rule, uint64_t fewest) {
    const uint64_t most = std::max(problem.kv_len / kKeysOfGranule, 1u);
    const uint64_t wanted = problem.tile.parts == 0 ? rule : std::min<uint64_t>(problem.tile.parts, most);
    return static_cast<uint32_t>(std::max(wanted, fewest));
}

double keys_that_pay(const AttentionProblem &problem, uint64_t workgroups, uint64_t filling, double cost_of_part) {
    workgroups = std::max<uint64_t>(workgroups, 1); // none: nothing to do
    const double balanced = std::sqrt(problem.kv_len / (cost_of_part * static_cast<double>(workgroups)));
    const auto most = static_cast<double>(divide_up(filling, workgroups));
    return problem.kv_len / std::max(std::min(balanced, most), 1.0);
}

uint32_t parts_that_pay(const AttentionProblem &problem, const DeviceCaps &caps, uint64_t workgroups, uint64_t filling,
                        uint32_t keys_of_tile, double cost_of_part) {
    const double tiles_wanted = keys_that_pay(problem, workgroups, filling, cost_of_part) / keys_of_tile;
    const auto tiles_of_part = static_cast<uint32_t>(std::max(std::lround(tiles_wanted), 1L));
    return parts_between(problem, tiles(problem.kv_len, std::max(tiles_of_part * keys_of_tile, kFewestKeysOfPart)),
                         tiles(problem.kv_len, keys_of_dispatch(problem, caps, keys_of_tile)));
}

void finish_parts(const AttentionProblem &problem, const DeviceCaps &caps, AttentionShape &shape) {
    AttentionShape::Dispatch &first = shape.dispatches[0];
    shape.parameters = parameters_of(problem);
    first.paths = paths_of(problem) | (shape.parts > 1 ? kPathParts : 0);
    if (shape.keys_per_dispatch < problem.kv_len) {
        first.constants.FEATURES |= FEATURE_SPLIT_KEYS;
        first.paths |= kPathStretches;
    }
    first.flops = flops_of(problem, caps, shape.keys_per_dispatch);
    if (shape.parts > 1 || shape.keys_per_dispatch < problem.kv_len) shape.scores = states_of(problem, shape.parts);
    if (shape.parts == 1) return;
    shape.parameters.parts = shape.parts;
    first.constants.FEATURES |= FEATURE_PARTS;
    shape.dispatches[1] = {Module::kMergeParts,
                           constants_of(problem, merge_workgroup(problem)),
                           {problem.q_len, problem.query_heads, problem.batch},
                           merge_paths_of(first.paths),
                           kFlopsOfElement * static_cast<double>(extent_elements(shape.scores))};
    gpu::AttentionConstants &merge = shape.dispatches[1].constants;
    merge.FEATURES = (merge.FEATURES | FEATURE_PARTS) & FEATURES_OF_MERGE_PARTS;
}

} // namespace vkattn
