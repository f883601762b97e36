#pragma once

#include "runtime/ops/tokens.hpp"
#include "shaders/interface/recurrent_states.h"

#include <span>

namespace vkattn {

// Of operators over tokens that carry states from sequence to sequence. Each may be absent.
struct RecurrentTensors {
    RECURRENT_TENSORS(VKATTN_TENSOR_MEMBER, RECURRENT, 0)
};

struct RecurrentSequences {
    uint32_t sequences = 0;
    uint64_t longest = 0; // tokens of a sequence
    bool packed = false;
    uint32_t states = 0;       // of initial_state and final_state
    uint32_t drafts = 0;       // tokens of a state in token_states
    bool keeps_tokens = false; // token_states are written
};

// What callers say of the sequences of rows [B,H,L,D], called `name`, packed or not, and of their states. Checks their tensors, and
// fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member. shape: of one state.
RecurrentSequences check_recurrent(RecurrentTensors &tensors, const vkattn_tensor &rows, const char *name,
                                   uint32_t max_seqlen_q, const vkattn_recurrent_states &states,
                                   std::span<const uint64_t> shape);

// Whether the numbers of states begin at sixteen bytes wherever their last size is a multiple of four.
bool are_aligned(const RecurrentTensors &tensors);

} // namespace vkattn
