/* The packed sequences and the states of sequences that operators over tokens have alike: lines of their tensor lists, from the binding
 * `first` on. */
#ifndef VKATTN_INTERFACE_RECURRENT_STATES_H
#define VKATTN_INTERFACE_RECURRENT_STATES_H

#define RECURRENT_TENSORS(X, OPERATOR, first)                                                                          \
    X(OPERATOR, first, initial_state, INITIAL, INITIAL_STATE, Read, Own, ANY)                                          \
    X(OPERATOR, first + 1, final_state, FINAL, FINAL_STATE, Written, Own, ANY)                                         \
    X(OPERATOR, first + 2, cu_seqlens_q, CU_SEQLENS, CU_SEQLENS_Q, Read, Own, ANY)                                     \
    X(OPERATOR, first + 3, state_slots, SLOTS, STATE_SLOTS, Read, Own, ANY)                                            \
    X(OPERATOR, first + 4, token_states, TOKEN_STATES, TOKEN_STATES, Written, Own, ANY)                                \
    X(OPERATOR, first + 5, accepted, ACCEPTED, ACCEPTED, Read, Own, ANY)

#endif
