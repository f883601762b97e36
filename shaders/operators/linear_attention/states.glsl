// States [Dk,Dv] of sequences and value heads, by fours of a row's columns: what is beyond the last row or column is 0, and is not
// stored. Device buffers are not trusted: a slot outside the pool is none.
#ifndef LINEAR_ATTENTION_STATES_GLSL
#define LINEAR_ATTENTION_STATES_GLSL

#include "operators/linear_attention/parameters.glsl"

layout(set = 0, binding = BINDING_LINEAR_ATTENTION_SLOTS, std430) readonly buffer SlotsBuffer { int slots[]; };
layout(set = 0, binding = BINDING_LINEAR_ATTENTION_ACCEPTED, std430) readonly buffer AcceptedBuffer { int accepted[]; };

// The functions NAME_load(element, columns) and NAME_store(element, columns, value) of four columns from an element on, of which `columns`
// exist, at least one. Loads have no branches, so that compilers let many of them be under way.
#define STATES(NAME, BINDING, ACCESS)                                                                                  \
    layout(set = 0, binding = BINDING, std430) ACCESS buffer NAME##_buffer { float NAME##_values[]; };                 \
    layout(set = 0, binding = BINDING, std430) ACCESS buffer NAME##_vector_buffer { vec4 NAME##_vectors[]; };

#define STATES_LOAD(NAME, BINDING)                                                                                     \
    vec4 NAME##_load(uint element, uint columns) {                                                                     \
        if (STATE_VECTORS != 0) return NAME##_vectors[base_bytes(BINDING) / 16 + element / 4];                         \
        uint begin = base_bytes(BINDING) / 4 + element;                                                                \
        vec4 value = vec4(0);                                                                                          \
        for (uint i = 0; i < 4; ++i) {                                                                                 \
            float each = NAME##_values[begin + min(i, columns - 1)];                                                   \
            value[i] = i < columns ? each : 0.0;                                                                       \
        }                                                                                                              \
        return value;                                                                                                  \
    }

#define STATES_STORE(NAME, BINDING)                                                                                    \
    void NAME##_store(uint element, uint columns, vec4 value) {                                                        \
        if (STATE_VECTORS != 0) {                                                                                      \
            NAME##_vectors[base_bytes(BINDING) / 16 + element / 4] = value;                                            \
            return;                                                                                                    \
        }                                                                                                              \
        uint begin = base_bytes(BINDING) / 4 + element;                                                                \
        for (uint i = 0; i < min(columns, 4); ++i) NAME##_values[begin + i] = value[i];                                \
    }

STATES(initial, BINDING_LINEAR_ATTENTION_INITIAL, readonly)
STATES_LOAD(initial, BINDING_LINEAR_ATTENTION_INITIAL)
STATES(final, BINDING_LINEAR_ATTENTION_FINAL, writeonly)
STATES_STORE(final, BINDING_LINEAR_ATTENTION_FINAL)

const uint NO_STATE = 0xffffffffu;
const uint STATE_ELEMENTS = HEAD_DIM * V_HEAD_DIM;

// Which of the states is a sequence's, or NO_STATE.
uint state_of(uint sequence) {
    if (HAS_SLOTS == 0) return sequence;
    int slot = slots[base_bytes(BINDING_LINEAR_ATTENTION_SLOTS) / 4 + sequence];
    return slot >= 0 && uint(slot) < parameters.states ? uint(slot) : NO_STATE;
}

// Of a sequence's drafted tokens those that were accepted; 0: none, it goes on from its initial state.
uint accepted_of(uint sequence) {
    if (HAS_ACCEPTED == 0) return 0;
    int count = accepted[base_bytes(BINDING_LINEAR_ATTENTION_ACCEPTED) / 4 + sequence];
    return uint(clamp(count, 0, int(parameters.drafts)));
}

// The first element of a head's state in [states,Hv,Dk,Dv].
uint first_element(uint state, uint head) { return (state * push.heads + head) * STATE_ELEMENTS; }

// Columns from `column` on.
uint columns_from(uint column) { return V_HEAD_DIM - min(column, V_HEAD_DIM); }

#endif
