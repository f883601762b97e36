#include "runtime/ops/attention_split.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr size_t kMostParts = 4096;
constexpr uint32_t kQueriesOfDraft = 8; // at most: a few tokens that are verified together

bool fits(const AttentionProblem &problem, const DeviceCaps &caps) {
    return std::ranges::all_of(
        kAttentionTensors, [&](const AttentionTensor &tensor) { return is_bindable(caps, problem.*tensor.member); });
}

// Whether a tensor is the same in every part: one that is read by the whole call's numbers.
bool is_in_every_part(const AttentionTensor &tensor, const AttentionProblem &problem) {
    return tensor.layout == TensorLayout::kCaptured || (tensor.layout == TensorLayout::kMask && problem.mask_in_turn);
}

AttentionProblem batch_entry(const AttentionProblem &problem, uint32_t entry) {
    AttentionProblem part = problem;
    part.batch = 1;
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (tensor.layout != TensorLayout::kHeads && !is_in_every_part(tensor, problem))
            slice(part.*tensor.member, 0, entry, 1);
    part.first_batch = problem.first_batch + entry;
    return part;
}

// One KV head of a batch entry and the query heads that read it.
AttentionProblem kv_head(const AttentionProblem &problem, uint32_t head) {
    AttentionProblem part = problem;
    part.kv_heads = 1;
    part.query_heads = problem.query_heads / problem.kv_heads;
    const uint64_t first = uint64_t{head} * part.query_heads;
    for (const AttentionTensor &tensor : kAttentionTensors) {
        vkattn_tensor &sliced = part.*tensor.member;
        if (is_of(tensor, {TensorLayout::kKeyRows, TensorLayout::kLists, TensorLayout::kScales})) {
            slice(sliced, 1, head, 1);
        } else if (tensor.layout == TensorLayout::kHeads) {
            slice(sliced, 0, first, part.query_heads);
        } else if (!is_of(tensor, {TensorLayout::kKeys, TensorLayout::kSequences, TensorLayout::kTrees}) &&
                   !is_in_every_part(tensor, problem)) {
            slice(sliced, 1, first, part.query_heads);
        }
    }
    part.first_query_head = problem.first_query_head + static_cast<uint32_t>(first);
    return part;
}

} // namespace

std::vector<AttentionProblem> split_to_bind(const AttentionProblem &problem, const DeviceCaps &caps) {
    const bool by_batch = problem.batch > 1;
    const bool by_head = problem.kv_heads > 1 && problem.kv_head_mapping == VKATTN_KV_HEADS_GROUPED;
    if (fits(problem, caps) || !is_dense(problem) || (!by_batch && !by_head)) return {problem};
    const uint32_t count = by_batch ? problem.batch : problem.kv_heads;
    const auto require_few = [&](size_t number) {
        if (number > kMostParts)
            fail(VKATTN_ERROR_UNSUPPORTED, "attention on ", caps.name, ": a tensor is above maxStorageBufferRange, ",
                 caps.max_storage_buffer_range, " bytes, or 2^32 elements, and ", number,
                 " parts are too many, expected at most ", kMostParts);
    };
    require_few(count);
    std::vector<AttentionProblem> parts;
    for (uint32_t i = 0; i < count; ++i) {
        const AttentionProblem part = by_batch ? batch_entry(problem, i) : kv_head(problem, i);
        for (const AttentionProblem &smaller : split_to_bind(part, caps)) parts.push_back(smaller);
        require_few(parts.size());
    }
    return parts;
}

std::vector<AttentionProblem> decodes_of(const AttentionProblem &problem) {
    if (!present(problem.cu_seqlens_q) || problem.q_len <= kQueriesOfDraft || problem.batch == 1 ||
        problem.kernel != VKATTN_KERNEL_AUTO || problem.batch_invariant || present(problem.key_indices))
        return {};
    std::vector<AttentionProblem> all;
    for (const uint32_t most : {1u, kQueriesOfDraft}) {
        AttentionProblem &decodes = all.emplace_back(problem);
        decodes.most_queries = decodes.q_len = most;
        decodes.tile = {};
    }
    return all;
}

} // namespace vkattn
