#include "runtime/ops/recurrent_states.hpp"

#include "runtime/problem/sequences.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// [count, shape...], contiguous F32; count UINT64_MAX: any.
vkattn_tensor checked_state(const vkattn_tensor &given, const char *name, uint64_t count,
                            std::span<const uint64_t> shape) {
    const vkattn_tensor tensor = normalised(given, name);
    if (!present(tensor)) return tensor;
    vkattn_tensor expected{};
    expected.type = VKATTN_TYPE_F32;
    expected.rank = static_cast<uint32_t>(shape.size() + 1);
    expected.shape[0] = count != UINT64_MAX ? count : tensor.shape[0];
    std::ranges::copy(shape, expected.shape + 1);
    require(tensor.type == VKATTN_TYPE_F32 && tensor.rank == expected.rank &&
                std::equal(tensor.shape, tensor.shape + 4, expected.shape) && is_contiguous(tensor),
            name, ": type ", type_name(tensor.type), ", shape ", shape_text(tensor), ", expected contiguous F32 ",
            shape_text(expected));
    require(span_elements(tensor) <= UINT32_MAX, name, ": shape ", shape_text(tensor),
            ", expected less than 2^32 elements");
    return tensor;
}

vkattn_tensor checked_numbers(const vkattn_tensor &given, const char *name, uint64_t sequences) {
    return checked_contiguous(given, name, contiguous(VKATTN_TYPE_I32, {sequences}));
}

// How many states there are: those of a pool, where sequences have slots, else as many as sequences.
uint64_t count_of(const vkattn_recurrent_states &given, uint64_t sequences) {
    if (!present(given.state_slots)) return sequences;
    for (const vkattn_tensor *tensor : {&given.initial_state, &given.final_state})
        if (present(*tensor)) return tensor->shape[0];
    return given.draft_tokens != 0 ? given.token_states.shape[0] / given.draft_tokens : 0;
}

RecurrentSequences check_packing(RecurrentTensors &tensors, const vkattn_tensor &rows, const char *name,
                                 uint32_t max_seqlen_q) {
    vkattn_tensor &bounds = tensors.cu_seqlens_q.tensor;
    bounds = checked_cu_seqlens(bounds, "cu_seqlens_q", rows, name);
    const bool packed = present(bounds);
    require(packed || max_seqlen_q == 0, "max_seqlen_q: ", max_seqlen_q, " without cu_seqlens_q, expected 0");
    return {.sequences = packed ? sequences_of(bounds) : static_cast<uint32_t>(rows.shape[0]),
            .longest = packed ? longest_sequence(max_seqlen_q, "max_seqlen_q", rows) : rows.shape[2],
            .packed = packed};
}

} // namespace

RecurrentSequences check_recurrent(RecurrentTensors &tensors, const vkattn_tensor &rows, const char *name,
                                   uint32_t max_seqlen_q, const vkattn_recurrent_states &given,
                                   std::span<const uint64_t> shape) {
    RecurrentSequences checked = check_packing(tensors, rows, name, max_seqlen_q);
    const bool has_tokens = present(given.token_states);
    require(!has_tokens || (given.draft_tokens >= 1 && given.draft_tokens <= VKATTN_MAX_DRAFT_TOKENS),
            "draft_tokens: ", given.draft_tokens, ", expected 1 to ", VKATTN_MAX_DRAFT_TOKENS, " with token_states");
    require(has_tokens || !present(given.accepted), "accepted: given without token_states, expected both");
    require(has_tokens || given.draft_tokens == 0, "draft_tokens: ", given.draft_tokens,
            " without token_states, expected 0");
    const uint64_t states = count_of(given, checked.sequences);
    checked.states = static_cast<uint32_t>(states);
    checked.drafts = given.draft_tokens;
    checked.keeps_tokens = has_tokens && checked.longest <= given.draft_tokens;
    tensors.initial_state.tensor = checked_state(given.initial_state, "initial_state", states, shape);
    tensors.final_state.tensor = checked_state(given.final_state, "final_state", states, shape);
    tensors.state_slots.tensor = checked_numbers(given.state_slots, "state_slots", checked.sequences);
    tensors.token_states.tensor = checked_state(given.token_states, "token_states", states * given.draft_tokens, shape);
    tensors.accepted.tensor = checked_numbers(given.accepted, "accepted", checked.sequences);
    require(!has_tokens || checked.keeps_tokens || present(given.accepted), "token_states: sequences of up to ",
            checked.longest, " tokens, expected at most draft_tokens, ", given.draft_tokens,
            ": max_seqlen_q says so of packed ones");
    return checked;
}

bool are_aligned(const RecurrentTensors &tensors) {
    return std::ranges::all_of(std::array{tensors.initial_state, tensors.final_state, tensors.token_states},
                               [](const View &view) { return view.tensor.offset % 4 == 0; });
}

} // namespace vkattn
