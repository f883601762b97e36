#include "runtime/kernels/split_keys.hpp"

#include "runtime/kernels/parameters.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

constexpr uint32_t kStateHeader = 4; // STATE_HEADER of shaders/attention/states.glsl
constexpr uint32_t kMergeWorkgroup = 32;

vkattn_tensor states_of(const AttentionProblem &problem, uint32_t parts) {
    const uint32_t size = kStateHeader + (problem.v_head_dim + 3) / 4 * 4;
    return contiguous(VKATTN_TYPE_F32, {uint64_t{problem.batch} * problem.query_heads, problem.q_len, parts, size});
}

// Workgroups of the grid's first axis that keep a dispatch below what the device may be given at once.
uint32_t groups_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, const AttentionShape &shape) {
    const Grid &groups = shape.dispatches[0].groups;
    const uint32_t most = std::min(groups[0], caps.max_workgroup_count[0]);
    if (caps.traits.max_dispatch_megaflops == 0) return most;
    const double pairs = static_cast<double>(rows_of(problem)) * shape.keys_per_dispatch * groups[1] * groups[2];
    const double megaflops = 2e-6 * pairs * (problem.head_dim + problem.v_head_dim);
    const double dispatches = std::max(std::ceil(megaflops / caps.traits.max_dispatch_megaflops), 1.0);
    return std::min(static_cast<uint32_t>(std::max(std::ceil(groups[0] / dispatches), 1.0)), most);
}

// What merge_parts needs to know of a problem.
CodePaths merge_paths_of(CodePaths paths) { return kPathParts | (paths & kPathLargeHeads); }

bool may_take_parts(const AttentionProblem &problem, const DeviceCaps &caps, std::string_view shader) {
    return why_off(caps, shader, kPathParts).empty() &&
           !is_off(caps, Module::kMergeParts, merge_paths_of(paths_of(problem)));
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

uint32_t parts_to_fill(const AttentionProblem &problem, const DeviceCaps &caps, std::string_view shader,
                       uint64_t workgroups, uint32_t keys_of_tile) {
    const uint32_t fewest = tiles(problem.kv_len, keys_of_dispatch(problem, caps, keys_of_tile));
    if (!may_take_parts(problem, caps, shader)) return fewest;
    const uint64_t wanted = std::max<uint64_t>(caps.traits.parallel_workgroups / workgroups, 1);
    const uint64_t most = std::max(problem.kv_len / kFewestKeysOfPart, 1u);
    return parts_between(problem, std::min(wanted, most), fewest);
}

void finish_parts(const AttentionProblem &problem, const DeviceCaps &caps, vkattn_kernel kernel, bool shares_grid,
                  AttentionShape &shape) {
    const char *name = vkattn_kernel_name(kernel);
    AttentionShape::Dispatch &first = shape.dispatches[0];
    shape.parameters = parameters_of(problem);
    first.paths = paths_of(problem) | (shape.parts > 1 ? kPathParts : 0);
    if (shape.keys_per_dispatch < problem.kv_len) {
        first.constants.FEATURES |= FEATURE_SPLIT_KEYS;
        first.paths |= kPathStretches;
    }
    shape.groups_per_dispatch = shares_grid ? groups_of_dispatch(problem, caps, shape) : first.groups[0];
    Grid largest = first.groups;
    largest[0] = shape.groups_per_dispatch;
    require_fit(largest, caps, name);
    if (shape.parts > 1 || shape.keys_per_dispatch < problem.kv_len) shape.scores = states_of(problem, shape.parts);
    if (shape.parts == 1) return;
    shape.parameters.parts = shape.parts;
    first.constants.FEATURES |= FEATURE_PARTS;
    shape.dispatches[1] = {Module::kMergeParts,
                           constants_of(problem, kMergeWorkgroup),
                           {problem.q_len, problem.query_heads, problem.batch},
                           merge_paths_of(first.paths)};
    gpu::AttentionConstants &merge = shape.dispatches[1].constants;
    merge.FEATURES = (merge.FEATURES | FEATURE_PARTS) & FEATURES_OF_MERGE_PARTS;
    require_fit(shape.dispatches[1].groups, caps, name);
}

} // namespace vkattn
