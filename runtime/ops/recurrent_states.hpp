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

// Tells a kernel's constants which of them there are.
template <class Constants>
void set_states(Constants &constants, const RecurrentStates &states) {
    constants.HAS_INITIAL = present(states.initial);
    constants.HAS_FINAL = present(states.final);
    constants.HAS_SLOTS = present(states.slots);
    constants.HAS_TOKEN_STATES = states.keeps_tokens;
    constants.HAS_ACCEPTED = present(states.accepted);
}

// Whether the numbers of states begin at sixteen bytes wherever their last size is a multiple of four.
bool are_aligned(const RecurrentStates &states);

} // namespace vkattn
