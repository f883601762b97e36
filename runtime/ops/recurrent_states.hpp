#pragma once

#include "runtime/plan/builder.hpp"

#include <span>

namespace vkattn {

// States of sequences that callers describe (vkattn_recurrent_states), checked.
struct RecurrentStates {
    View initial, final, slots, tokens, accepted; // each may be absent
    uint32_t states = 0;                          // of initial and final
    uint32_t drafts = 0;                          // tokens of a state in `tokens`
    bool keeps_tokens = false;                    // `tokens` are written
};

// shape: of one state. longest: tokens of a sequence. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member.
RecurrentStates checked_states(const vkattn_recurrent_states &given, uint64_t sequences, uint64_t longest,
                               std::span<const uint64_t> shape);

// Whether the numbers of states begin at sixteen bytes wherever their last size is a multiple of four.
bool are_aligned(const RecurrentStates &states);

} // namespace vkattn
