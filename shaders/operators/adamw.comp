// One step of AdamW (Loshchilov and Hutter, 2019), of what vkattn_adamw_desc says.
//
// parameter, first_moment, second_moment F32, gradient and copy, all contiguous and of one size
// grid: (parts); an invocation owns fours of a part's elements, as many after each other as are loaded together, and where elements do
// not begin at a whole word, or at their end, single ones
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

#include "interface/adamw.h"

ADAMW_CONSTANTS(VKATTN_CONSTANT)

#define PUSH AdamwPush
#include "common/push.glsl"

#define TENSOR parameter
#define TENSOR_BINDING BINDING_ADAMW_PARAMETER
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR gradient
#define TENSOR_BINDING BINDING_ADAMW_GRADIENT
#include "common/tensor.glsl"

#define TENSOR first_moment
#define TENSOR_BINDING BINDING_ADAMW_FIRST_MOMENT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR second_moment
#define TENSOR_BINDING BINDING_ADAMW_SECOND_MOMENT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR copy
#define TENSOR_BINDING BINDING_ADAMW_COPY
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_ADAMW_STEP, std430) readonly buffer StepBuffer { int steps[]; };
layout(set = 0, binding = BINDING_ADAMW_FACTOR, std430) readonly buffer FactorBuffer { float factors[]; };
layout(set = 0, binding = BINDING_ADAMW_LEARNING_RATE, std430) readonly buffer LearningRateBuffer {
    float learning_rates[];
};

const uint FOURS = ADAMW_ELEMENTS / (4 * ADAMW_WORKGROUP_SIZE);

// Of four elements.
struct State {
    vec4 parameters, gradients, first, second;
};

// What all elements share.
struct Rates {
    float gradient, decay, step,
        second; // what the gradient, the parameter, the step and the second moment are multiplied by
};

// 1 - exp(x) of x at most 0, without what 1 - exp(x) cancels.
float one_minus_exp(float x) {
    if (x < -0.25) return 1.0 - exp(x);
    return -x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0 * (1.0 + x / 6.0)))));
}

float factor() { return HAS_FACTOR != 0u ? factors[base_bytes(BINDING_ADAMW_FACTOR) / 4] : 1.0; }

Rates rates() {
    float learning_rate = learning_rates[base_bytes(BINDING_ADAMW_LEARNING_RATE) / 4];
    float step = float(max(steps[base_bytes(BINDING_ADAMW_STEP) / 4], 1));
    return Rates(factor() * push.copy_scale, 1.0 - learning_rate * push.weight_decay,
                 learning_rate / one_minus_exp(step * push.log_beta1), 1.0 / one_minus_exp(step * push.log_beta2));
}

void update(inout State state, Rates rates) {
    vec4 gradients = state.gradients * rates.gradient;
    state.first += push.one_minus_beta1 * (gradients - state.first);
    state.second += push.one_minus_beta2 * (gradients * gradients - state.second);
    vec4 deviations = sqrt(state.second * rates.second) + push.epsilon;
    state.parameters = state.parameters * rates.decay - rates.step * state.first / deviations;
}

State load_four(uint i) {
    return State(parameter_load4(FORMAT_F32, true, i, 1), gradient_load4(GRADIENT_FORMAT, true, i, 1),
                 first_moment_load4(FORMAT_F32, true, i, 1), second_moment_load4(FORMAT_F32, true, i, 1));
}

State load_one(uint i) {
    return State(vec4(parameter_load(FORMAT_F32, i)), vec4(gradient_load(GRADIENT_FORMAT, i)),
                 vec4(first_moment_load(FORMAT_F32, i)), vec4(second_moment_load(FORMAT_F32, i)));
}

// Of the next two elements.
void store_two(uint i, vec2 parameters, vec2 first, vec2 second) {
    parameter_store2(FORMAT_F32, true, i, 1, parameters);
    first_moment_store2(FORMAT_F32, true, i, 1, first);
    second_moment_store2(FORMAT_F32, true, i, 1, second);
    if (COPY_FORMAT != FORMAT_NONE) copy_store2(COPY_FORMAT, true, i, 1, parameters * push.copy_scale);
}

void store_one(uint i, State state) {
    parameter_store(FORMAT_F32, i, state.parameters.x);
    first_moment_store(FORMAT_F32, i, state.first.x);
    second_moment_store(FORMAT_F32, i, state.second.x);
    if (COPY_FORMAT != FORMAT_NONE) copy_store(COPY_FORMAT, i, state.parameters.x * push.copy_scale);
}

// Of elements below `whole`; past them the first four once more: no load is behind a branch, and none is of what another invocation
// writes.
void update_fours(uint first, uint whole, Rates rates) {
    State states[FOURS];
    [[unroll]] for (uint k = 0; k < FOURS; ++k) {
        uint i = first + k * 4 * ADAMW_WORKGROUP_SIZE;
        states[k] = load_four(i < whole ? i : first);
    }
    [[unroll]] for (uint k = 0; k < FOURS; ++k) {
        uint i = first + k * 4 * ADAMW_WORKGROUP_SIZE;
        update(states[k], rates);
        if (i >= whole) continue;
        store_two(i, states[k].parameters.xy, states[k].first.xy, states[k].second.xy);
        store_two(i + 2, states[k].parameters.zw, states[k].first.zw, states[k].second.zw);
    }
}

void main() {
    if (factor() == 0.0) return;
    Rates of_step = rates();
    uint first = workgroup().x * ADAMW_ELEMENTS, end = min(first + ADAMW_ELEMENTS, push.elements);
    uint whole = IN_FOURS != 0u ? push.elements & ~3u : 0;
    if (first + 4 * gl_LocalInvocationID.x < whole) update_fours(first + 4 * gl_LocalInvocationID.x, whole, of_step);
    for (uint i = max(first, whole) + gl_LocalInvocationID.x; i < end; i += ADAMW_WORKGROUP_SIZE) {
        State state = load_one(i);
        update(state, of_step);
        store_one(i, state);
    }
}
