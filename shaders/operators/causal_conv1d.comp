// A causal convolution over a sequence's tokens, each channel by itself, as layers of linear attention have it.
//
// input [B,L,C], weight [C,K], bias [C] -> output [B,L,C]; packed: [1,total,C] and cu_seqlens. States [states,K-1,C]: the inputs before
// grid: (tiles of 2 * CAUSAL_CONV1D_WORKGROUP_SIZE channels, tiles of CAUSAL_CONV1D_TOKENS tokens, B), of packed sequences their tiles one
// behind the other. An invocation has two channels; that of a sequence's first tile alone reads and writes its state, which may be one
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "interface/causal_conv1d.h"

layout(local_size_x = CAUSAL_CONV1D_WORKGROUP_SIZE) in;

CAUSAL_CONV1D_CONSTANTS(VKATTN_CONSTANT)

#define PUSH CausalConv1dPush
#define CU_SEQLENS_BINDING BINDING_CAUSAL_CONV1D_CU_SEQLENS
#include "operators/packed_chunks.glsl"

#include "operators/activation.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_CAUSAL_CONV1D_INPUT
#include "common/tensor.glsl"

#define TENSOR weight
#define TENSOR_BINDING BINDING_CAUSAL_CONV1D_WEIGHT
#include "common/tensor.glsl"

#define TENSOR bias
#define TENSOR_BINDING BINDING_CAUSAL_CONV1D_BIAS
#include "common/tensor.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_CAUSAL_CONV1D_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_CAUSAL_CONV1D_INITIAL, std430) readonly buffer InitialBuffer { float initial[]; };
layout(set = 0, binding = BINDING_CAUSAL_CONV1D_FINAL, std430) writeonly buffer FinalBuffer { float final[]; };
layout(set = 0, binding = BINDING_CAUSAL_CONV1D_SLOTS, std430) readonly buffer SlotsBuffer { int slots[]; };
layout(set = 0, binding = BINDING_CAUSAL_CONV1D_TOKEN_STATES, std430) buffer TokenStatesBuffer {
    float token_states[];
};
layout(set = 0, binding = BINDING_CAUSAL_CONV1D_ACCEPTED, std430) readonly buffer AcceptedBuffer { int accepted[]; };

const uint TOKENS = CAUSAL_CONV1D_TOKENS;
const uint BEFORE = TAPS - 1; // inputs of a state
const uint NO_STATE = 0xffffffffu;

uint channel, channels;   // the first of the invocation's, and how many it has
uint batch, first, count; // the sequence's rows

vec2 input_at(uint token) {
    uint row = batch * push.input_strides[0] + (first + token) * push.input_strides[1] + channel;
    return vec2(input_load(INPUT_FORMAT, row), channels == 2 ? input_load(INPUT_FORMAT, row + 1) : 0.0);
}

uint state_of(uint sequence) {
    if (HAS_SLOTS == 0) return sequence;
    int slot = slots[base_bytes(BINDING_CAUSAL_CONV1D_SLOTS) / 4 + sequence];
    return slot >= 0 && uint(slot) < push.states ? uint(slot) : NO_STATE;
}

// The element of an input of a state.
uint state_element(const uint binding, uint state, uint i) {
    return base_bytes(binding) / 4 + (state * BEFORE + i) * push.channels + channel;
}

// Input i of the sequence's state, the latest one last.
vec2 initial_at(uint sequence, uint state, uint i) {
    if (state == NO_STATE) return vec2(0);
    if (HAS_ACCEPTED != 0) {
        int after = accepted[base_bytes(BINDING_CAUSAL_CONV1D_ACCEPTED) / 4 + sequence];
        if (after > 0) {
            uint kept = state * push.drafts + min(uint(after), push.drafts) - 1;
            uint at = state_element(BINDING_CAUSAL_CONV1D_TOKEN_STATES, kept, i);
            return vec2(token_states[at], channels == 2 ? token_states[at + 1] : 0.0);
        }
    }
    if (HAS_INITIAL == 0) return vec2(0);
    uint at = state_element(BINDING_CAUSAL_CONV1D_INITIAL, state, i);
    return vec2(initial[at], channels == 2 ? initial[at + 1] : 0.0);
}

vec2 window[CAUSAL_CONV1D_MOST_TAPS]; // of a token: BEFORE inputs before it, and its own
vec2 before[CAUSAL_CONV1D_MOST_TAPS]; // the state that the sequence began with

void load_state(uint sequence, uint state, uint token) {
    [[unroll]] for (uint i = 0; i < BEFORE; ++i) {
        before[i] = vec2(0);
        if (token == 0)
            window[i] = before[i] = initial_at(sequence, state, i);
        else
            window[i] = input_at(token - BEFORE + i); // token is a multiple of TOKENS, which are more than BEFORE
    }
}

void store_token(uint token) {
    vec2 sum = vec2(0);
    if (BIAS_FORMAT != FORMAT_NONE)
        sum = vec2(bias_load(BIAS_FORMAT, channel), channels == 2 ? bias_load(BIAS_FORMAT, channel + 1) : 0.0);
    [[unroll]] for (uint i = 0; i < TAPS; ++i) {
        float second = channels == 2 ? weight_load(WEIGHT_FORMAT, (channel + 1) * TAPS + i) : 0.0;
        sum += vec2(weight_load(WEIGHT_FORMAT, channel * TAPS + i), second) * window[i];
    }
    vec2 value = vec2(activate(ACTIVATION, sum.x), activate(ACTIVATION, sum.y));
    uint row = batch * push.output_strides[0] + (first + token) * push.output_strides[1] + channel;
    if (channels == 2)
        output_store2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0, row, 1, value);
    else
        output_store(OUTPUT_FORMAT, row, value.x);
}

void store_token_state(uint state, uint token) {
    if (KEEPS_TOKEN_STATES == 0 || state == NO_STATE || token >= push.drafts) return;
    [[unroll]] for (uint i = 0; i < BEFORE; ++i) {
        uint at = state_element(BINDING_CAUSAL_CONV1D_TOKEN_STATES, state * push.drafts + token, i);
        token_states[at] = window[i + 1].x;
        if (channels == 2) token_states[at + 1] = window[i + 1].y;
    }
}

// The last inputs, of which a short sequence has some before its own.
void store_state(uint state) {
    if (HAS_FINAL == 0 || state == NO_STATE) return;
    [[unroll]] for (uint i = 0; i < BEFORE; ++i) {
        vec2 value = vec2(0);
        if (count + i >= BEFORE)
            value = input_at(count + i - BEFORE);
        else [[unroll]]
            for (uint j = 0; j < BEFORE; ++j) value = j == count + i ? before[j] : value;
        uint at = state_element(BINDING_CAUSAL_CONV1D_FINAL, state, i);
        final[at] = value.x;
        if (channels == 2) final[at + 1] = value.y;
    }
}

void main() {
    channel = 2 * (workgroup().x * CAUSAL_CONV1D_WORKGROUP_SIZE + gl_LocalInvocationID.x);
    if (channel >= push.channels) return;
    channels = min(push.channels - channel, 2);
    uint sequence = workgroup().z, begin = workgroup().y * TOKENS;
    batch = sequence;
    first = 0;
    count = push.len;
    if (HAS_CU_SEQLENS != 0) {
        sequence = sequence_of_packed_chunk(workgroup().y, push.sequences, push.total, TOKENS);
        uint own = first_packed_chunk(sequence, push.total, TOKENS);
        if (workgroup().y < own) return;
        begin = (workgroup().y - own) * TOKENS;
        uvec2 rows = packed_rows(sequence, push.total);
        batch = 0;
        first = rows.x;
        count = min(rows.y, push.longest);
    }
    if (begin != 0 && begin >= count) return;
    uint state = state_of(sequence);
    load_state(sequence, state, begin);
    for (uint token = begin; token < min(begin + TOKENS, count); ++token) {
        window[BEFORE] = input_at(token);
        store_token(token);
        store_token_state(state, token);
        [[unroll]] for (uint i = 0; i < BEFORE; ++i) window[i] = window[i + 1];
    }
    if (begin == 0) store_state(state);
}
