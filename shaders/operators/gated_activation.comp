// output = activation(gate) * input, each [B,L,N]; or its gradients: d_gate = activation'(gate) * input * d_output,
// d_input = activation(gate) * d_output. Without input it is 1.
//
// What is written may be what is read, element on element.
// grid: (parts of a row, L, B); an invocation owns fours of a part's features, as many after each other as are loaded together,
// and where rows do not begin at whole words, or at a row's end, single features
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

#include "interface/gated_activation.h"

GATED_ACTIVATION_CONSTANTS(VKATTN_CONSTANT)

#define PUSH GatedActivationPush
#include "common/push.glsl"

#define TENSOR gate
#define TENSOR_BINDING BINDING_GATED_ACTIVATION_GATE
#include "common/tensor.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_GATED_ACTIVATION_INPUT
#include "common/tensor.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_GATED_ACTIVATION_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR d_output
#define TENSOR_BINDING BINDING_GATED_ACTIVATION_D_OUTPUT
#include "common/tensor.glsl"

#define TENSOR d_gate
#define TENSOR_BINDING BINDING_GATED_ACTIVATION_D_GATE
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR d_input
#define TENSOR_BINDING BINDING_GATED_ACTIVATION_D_INPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#include "operators/activation.glsl"

struct Given {
    vec4 gates, inputs, gradients;
};

struct Made {
    vec4 outputs, d_gates, d_inputs;
};

uint start_of(const uint strides[2]) { return workgroup().z * strides[0] + workgroup().y * strides[1]; }

Given load_four(uint i) {
    Given given = Given(vec4(0.0), vec4(1.0), vec4(0.0));
    given.gates = gate_load4(GATE_FORMAT, true, start_of(push.gate_strides) + i, 1);
    if (INPUT_FORMAT != FORMAT_NONE)
        given.inputs = input_load4(INPUT_FORMAT, true, start_of(push.input_strides) + i, 1);
    if (D_OUTPUT_FORMAT != FORMAT_NONE)
        given.gradients = d_output_load4(D_OUTPUT_FORMAT, true, start_of(push.d_output_strides) + i, 1);
    return given;
}

Given load_one(uint i) {
    Given given = Given(vec4(0.0), vec4(1.0), vec4(0.0));
    given.gates.x = gate_load(GATE_FORMAT, start_of(push.gate_strides) + i);
    if (INPUT_FORMAT != FORMAT_NONE) given.inputs.x = input_load(INPUT_FORMAT, start_of(push.input_strides) + i);
    if (D_OUTPUT_FORMAT != FORMAT_NONE)
        given.gradients.x = d_output_load(D_OUTPUT_FORMAT, start_of(push.d_output_strides) + i);
    return given;
}

Made made_of(Given given) {
    vec4 activated, slopes;
    for (uint j = 0; j < 4; ++j) activated[j] = activate(ACTIVATION, given.gates[j]);
    for (uint j = 0; j < 4; ++j) slopes[j] = activation_slope(ACTIVATION, given.gates[j]);
    return Made(activated * given.inputs, slopes * given.inputs * given.gradients, activated * given.gradients);
}

void store_four(uint i, Made made) {
    if (OUTPUT_FORMAT != FORMAT_NONE) {
        uint to = start_of(push.output_strides) + i;
        output_store2(OUTPUT_FORMAT, true, to, 1, made.outputs.xy);
        output_store2(OUTPUT_FORMAT, true, to + 2, 1, made.outputs.zw);
    }
    if (D_GATE_FORMAT != FORMAT_NONE) {
        uint to = start_of(push.d_gate_strides) + i;
        d_gate_store2(D_GATE_FORMAT, true, to, 1, made.d_gates.xy);
        d_gate_store2(D_GATE_FORMAT, true, to + 2, 1, made.d_gates.zw);
    }
    if (D_INPUT_FORMAT != FORMAT_NONE) {
        uint to = start_of(push.d_input_strides) + i;
        d_input_store2(D_INPUT_FORMAT, true, to, 1, made.d_inputs.xy);
        d_input_store2(D_INPUT_FORMAT, true, to + 2, 1, made.d_inputs.zw);
    }
}

void store_one(uint i, Made made) {
    if (OUTPUT_FORMAT != FORMAT_NONE) output_store(OUTPUT_FORMAT, start_of(push.output_strides) + i, made.outputs.x);
    if (D_GATE_FORMAT != FORMAT_NONE) d_gate_store(D_GATE_FORMAT, start_of(push.d_gate_strides) + i, made.d_gates.x);
    if (D_INPUT_FORMAT != FORMAT_NONE)
        d_input_store(D_INPUT_FORMAT, start_of(push.d_input_strides) + i, made.d_inputs.x);
}

// Of features below `whole`; past them the first four once more: no load is behind a branch, and none is of what another invocation
// writes.
void compute_fours(uint first, uint whole) {
    const uint FOURS = GATED_ACTIVATION_FEATURES / (4 * GATED_ACTIVATION_WORKGROUP_SIZE);
    Given given[FOURS];
    [[unroll]] for (uint k = 0; k < FOURS; ++k) {
        uint i = first + k * 4 * GATED_ACTIVATION_WORKGROUP_SIZE;
        given[k] = load_four(i < whole ? i : first);
    }
    [[unroll]] for (uint k = 0; k < FOURS; ++k) {
        uint i = first + k * 4 * GATED_ACTIVATION_WORKGROUP_SIZE;
        if (i < whole) store_four(i, made_of(given[k]));
    }
}

void main() {
    uint first = workgroup().x * GATED_ACTIVATION_FEATURES;
    uint end = min(first + GATED_ACTIVATION_FEATURES, push.features);
    uint whole = IN_FOURS != 0u ? push.features & ~3u : 0;
    if (first + 4 * gl_LocalInvocationID.x < whole) compute_fours(first + 4 * gl_LocalInvocationID.x, whole);
    for (uint i = max(first, whole) + gl_LocalInvocationID.x; i < end; i += GATED_ACTIVATION_WORKGROUP_SIZE)
        store_one(i, made_of(load_one(i)));
}
