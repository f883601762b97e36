#include "runtime/kernels/split_keys.hpp"

#include "runtime/kernels/parameters.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint32_t kStateHeader = 4; // STATE_HEADER of shaders/attention/states.glsl
constexpr uint32_t kMergeWorkgroup = 32;

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

} // namespace

uint32_t keys_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t keys_of_tile) {
    if (caps.max_loop_iterations == 0) return problem.kv_len;
    return present(problem.block_mask) ? keys_of_tile : round_up(kKeysOfBoundedLoops, keys_of_tile);
}

uint32_t parts_between(const AttentionProblem &problem, uint64_t rule, uint64_t fewest) {
    const uint64_t most = std::max(problem.kv_len / kKeysOfGranule, 1u);
    const uint64_t wanted = problem.tile.parts == 0 ? rule : std::min<uint64_t>(problem.tile.parts, most);
    return static_cast<uint32_t>(std::max(wanted, fewest));
}

uint32_t parts_to_fill(const AttentionProblem &problem, const DeviceCaps &caps, uint64_t workgroups,
                       uint32_t keys_of_tile) {
    const uint64_t wanted = std::max<uint64_t>(caps.traits.parallel_workgroups / workgroups, 1);
    const uint64_t most = std::max(problem.kv_len / kFewestKeysOfPart, 1u);
    return parts_between(problem, std::min(wanted, most),
                         tiles(problem.kv_len, keys_of_dispatch(problem, caps, keys_of_tile)));
}

void finish_parts(const AttentionProblem &problem, const DeviceCaps &caps, AttentionShape &shape) {
    AttentionShape::Dispatch &first = shape.dispatches[0];
    shape.parameters = parameters_of(problem);
    if (shape.keys_per_dispatch < problem.kv_len) first.constants.FEATURES |= FEATURE_SPLIT_KEYS;
    first.flops = flops_of(problem, caps, shape.keys_per_dispatch);
    if (shape.parts > 1 || shape.keys_per_dispatch < problem.kv_len) shape.scores = states_of(problem, shape.parts);
    if (shape.parts == 1) return;
    shape.parameters.parts = shape.parts;
    first.constants.FEATURES |= FEATURE_PARTS;
    shape.dispatches[1] = {Module::kMergeParts,
                           constants_of(problem, kMergeWorkgroup),
                           {problem.q_len, problem.query_heads, problem.batch},
                           kFlopsOfElement * static_cast<double>(extent_elements(shape.scores))};
    gpu::AttentionConstants &merge = shape.dispatches[1].constants;
    merge.FEATURES = (merge.FEATURES | FEATURE_PARTS) & FEATURES_OF_MERGE_PARTS;
}

} // namespace vkattn
