// decode and latent_decode: flash's tile with the keys of each row split over workgroups and joined by a merge.
#include "runtime/kernels/emit.hpp"
#include "runtime/kernels/flash.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint64_t kRows = 64;        // of a KV head: more fill a device by themselves
constexpr uint64_t kLatentRows = 512; // the only KV head's: all heads of a few tokens
constexpr uint32_t kPays = 60, kServes = 20;

// Parts that fill the device, none so small that its merge costs more than it saves, none above what an invocation may
// attend.
uint32_t parts_of(const AttentionProblem &problem, const DeviceCaps &caps, const FlashTile &tile) {
    const uint32_t rows = tile.rows * tile.row_groups;
    const uint64_t workgroups = uint64_t{tiles(rows_of(problem), rows)} * problem.kv_heads * problem.batch;
    const uint64_t filling = uint64_t{caps.traits.parallel_workgroups} * (kMostRowGroups / tile.row_groups);
    const uint64_t most = std::max(problem.kv_len / kFewestKeysOfPart, 1u);
    return parts_between(problem, std::min(divide_up(filling, workgroups), most),
                         tiles(problem.kv_len, keys_of_dispatch(problem, caps, KEYS_OF_FLASH_TILE)));
}

std::string obstacle(const AttentionProblem &problem, const DeviceCaps &) {
    if (problem.batch_invariant) return "keys split over workgroups give no batch-invariant result";
    return obstacle_of_scores(problem);
}

std::string obstacle_of_latents(const AttentionProblem &problem, const DeviceCaps &caps) {
    return problem.value_in_key ? obstacle(problem, caps) : "value has rows of its own";
}

// Whether rows are so few, and keys so many, that splitting the keys is worth its merge.
bool pays(const AttentionProblem &problem, const DeviceCaps &caps, uint64_t most_rows) {
    return rows_of(problem) <= most_rows && problem.kv_len >= 2 * kFewestKeysOfPart &&
           parts_of(problem, caps, flash_tile(problem, caps)) > 1;
}

uint32_t rank(const AttentionProblem &problem, const DeviceCaps &caps) {
    return !problem.value_in_key && pays(problem, caps, kRows) ? kPays : kServes;
}

uint32_t rank_of_latents(const AttentionProblem &problem, const DeviceCaps &caps) {
    return problem.value_in_key && pays(problem, caps, kLatentRows) ? kPays : kServes - 1;
}

AttentionShape shape_of(const AttentionProblem &problem, const DeviceCaps &caps, vkattn_kernel kernel) {
    const FlashTile tile = flash_tile(problem, caps);
    AttentionShape shape{};
    shape.parts = std::max(parts_of(problem, caps, tile), 2u); // a single one would need no merge
    shape.keys_per_dispatch = problem.kv_len;
    shape.dispatches[0] = flash_dispatch(problem, tile, shape.parts);
    finish_parts(problem, caps, kernel, true, shape);
    return shape;
}

AttentionShape shape(const AttentionProblem &problem, const DeviceCaps &caps) {
    return shape_of(problem, caps, VKATTN_KERNEL_DECODE);
}

AttentionShape shape_of_latents(const AttentionProblem &problem, const DeviceCaps &caps) {
    return shape_of(problem, caps, VKATTN_KERNEL_LATENT_DECODE);
}

constexpr const char *kMerit = "few query rows over many keys, which are split to fill the device";

} // namespace

const AttentionKernel kDecode = {.kernel = VKATTN_KERNEL_DECODE,
                                 .merit = kMerit,
                                 .missing = obstacle_of_arrays,
                                 .obstacle = obstacle,
                                 .rank = rank,
                                 .shape = shape,
                                 .describe = describe_flash,
                                 .emit = emit_split_keys};

const AttentionKernel kLatentDecode = {.kernel = VKATTN_KERNEL_LATENT_DECODE,
                                       .merit = kMerit,
                                       .missing = obstacle_of_arrays,
                                       .obstacle = obstacle_of_latents,
                                       .rank = rank_of_latents,
                                       .shape = shape_of_latents,
                                       .describe = describe_flash,
                                       .emit = emit_split_keys};

} // namespace vkattn
