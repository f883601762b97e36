// Rotary position embedding: rotates each pair of a vector by position * frequency (Su et al., 2021).
//
// input [B,H,L,D] f32 -> output [B,H,L,D] f32, which may be the input; frequencies [D/2]: turns per position, as 64-bit
// fixed point (low word, high word), and the factor that lengthens or shortens the rotated vector
// grid: (tiles of L * D/2, H, B), one pair an invocation
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface/rope.h"

ROPE_CONSTANTS(VKATTN_CONSTANT)

#define PUSH RopePush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_ROPE_INPUT, std430) readonly buffer InputBuffer { float input_values[]; };
layout(set = 0, binding = BINDING_ROPE_OUTPUT, std430) writeonly buffer OutputBuffer { float output_values[]; };
layout(set = 0, binding = BINDING_ROPE_FREQUENCIES, std430) readonly buffer FrequencyBuffer { uint frequency_words[]; };
layout(set = 0, binding = BINDING_ROPE_PAST_LENGTHS, std430) readonly buffer PastLengthsBuffer { int past_lengths[]; };

// Position times frequency modulo one turn, in units of 2^-32 turns: exact at any position, where a float would have
// lost its fraction.
uint phase_of(uint position, uvec2 frequency) {
    uint carried, low;
    umulExtended(position, frequency.x, carried, low);
    return position * frequency.y + carried;
}

// cos and sin of a phase. Vulkan grants sin() an absolute error of 2^-11, far too much here.
vec2 cos_sin(uint phase) {
    uint quadrant = (phase + 0x20000000u) >> 30;
    float t = float(int(phase - (quadrant << 30))) * (6.28318530717958647693 / 4294967296.0); // within +- pi / 4
    float u = t * t;
    float sine = t * (1.0 + u * (-1.0 / 6.0 + u * (1.0 / 120.0 + u * (-1.0 / 5040.0 + u * (1.0 / 362880.0)))));
    float cosine = 1.0 + u * (-0.5 + u * (1.0 / 24.0 + u * (-1.0 / 720.0 + u * (1.0 / 40320.0))));
    vec2 rotated = (quadrant & 1u) == 0u ? vec2(cosine, sine) : vec2(-sine, cosine);
    return (quadrant & 2u) == 0u ? rotated : -rotated;
}

uint start_of(uint strides[3], uint token) {
    return gl_WorkGroupID.z * strides[0] + gl_WorkGroupID.y * strides[1] + token * strides[2];
}

void main() {
    uint token = gl_GlobalInvocationID.x / push.pairs;
    uint pair = gl_GlobalInvocationID.x % push.pairs;
    if (token >= push.positions) return;
    uint past = push.offset;
    if (HAS_PAST_LENGTHS != 0u)
        past = uint(max(past_lengths[base_bytes(BINDING_ROPE_PAST_LENGTHS) / 4 + gl_WorkGroupID.z], 0));

    uint frequency = base_bytes(BINDING_ROPE_FREQUENCIES) / 4 + 3 * pair;
    uint phase = phase_of(past + token, uvec2(frequency_words[frequency], frequency_words[frequency + 1]));
    vec2 rotation = uintBitsToFloat(frequency_words[frequency + 2]) * cos_sin(phase);

    uint first = INTERLEAVED != 0u ? 2 * pair : pair;
    uint second = INTERLEAVED != 0u ? 2 * pair + 1 : pair + push.pairs;
    uint from = base_bytes(BINDING_ROPE_INPUT) / 4 + start_of(push.input_strides, token);
    uint to = base_bytes(BINDING_ROPE_OUTPUT) / 4 + start_of(push.output_strides, token);
    vec2 x = vec2(input_values[from + first], input_values[from + second]);
    output_values[to + first] = x.x * rotation.x - x.y * rotation.y;
    output_values[to + second] = x.x * rotation.y + x.y * rotation.x;
}
