// Rotary position embedding, in place: rotates each pair of a vector by position * frequency (Su et al., 2021).
//
// data [B,H,L,D] f32, frequencies [D/2]: turns per position, as 64-bit fixed point (low word, high word), and the factor
// that lengthens or shortens the rotated vector; grid: (tiles of L * D/2, H, B), one pair an invocation
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface.h"

ROPE_CONSTANTS(VKATTN_CONSTANT)

layout(push_constant, std430) uniform PushBlock { RopePush push; };

#include "lib/bases.glsl"

layout(set = 0, binding = BINDING_ROPE_DATA, std430) buffer DataBuffer { float data[]; };
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

void main() {
    uint token = gl_GlobalInvocationID.x / push.pairs;
    uint pair = gl_GlobalInvocationID.x % push.pairs;
    if (token >= push.positions) return;
    uint batch = gl_WorkGroupID.z;
    uint past = push.offset;
    if (HAS_PAST_LENGTHS != 0u)
        past = uint(max(past_lengths[base_bytes(BINDING_ROPE_PAST_LENGTHS) / 4 + batch], 0));

    uint frequency = base_bytes(BINDING_ROPE_FREQUENCIES) / 4 + 3 * pair;
    uint phase = phase_of(past + token, uvec2(frequency_words[frequency], frequency_words[frequency + 1]));
    vec2 rotation = uintBitsToFloat(frequency_words[frequency + 2]) * cos_sin(phase);

    uint start = base_bytes(BINDING_ROPE_DATA) / 4 + batch * push.strides[0] + gl_WorkGroupID.y * push.strides[1] +
                 token * push.strides[2];
    uint first = start + (INTERLEAVED != 0u ? 2 * pair : pair);
    uint second = start + (INTERLEAVED != 0u ? 2 * pair + 1 : pair + push.pairs);
    vec2 x = vec2(data[first], data[second]);
    data[first] = x.x * rotation.x - x.y * rotation.y;
    data[second] = x.x * rotation.y + x.y * rotation.x;
}
