// Rotary position embedding: rotates each pair of a vector by position * frequency (Su et al., 2021).
//
// input [B,H,L,D] f32, or packed [1,H,total,D] with cu_seqlens -> output, the same, which may be the input. With NORM_FORMAT each
// vector is normalised first (RMSNorm: Zhang and Sennrich, 2019), norm [D]: every invocation goes through the whole of its vector,
// so that output must then be other memory
// frequencies [D/2]: turns per position, as 64-bit fixed point (low word, high word), and the factor that lengthens or
// shortens the rotated vector
// grid: (tiles of L * D/2, H, B), of packed tokens (tiles of total * D/2, H, 1), one pair an invocation
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface/rope.h"

ROPE_CONSTANTS(VKATTN_CONSTANT)

#define PUSH RopePush
#define CU_SEQLENS_BINDING BINDING_ROPE_CU_SEQLENS
#include "layers/packed.glsl"
#include "layers/rotation.glsl"

layout(set = 0, binding = BINDING_ROPE_INPUT, std430) readonly buffer InputBuffer { float input_values[]; };
layout(set = 0, binding = BINDING_ROPE_OUTPUT, std430) writeonly buffer OutputBuffer { float output_values[]; };
layout(set = 0, binding = BINDING_ROPE_FREQUENCIES, std430) readonly buffer FrequencyBuffer { uint frequency_words[]; };
layout(set = 0, binding = BINDING_ROPE_PAST_LENGTHS, std430) readonly buffer PastLengthsBuffer { int past_lengths[]; };

#define TENSOR norm
#define TENSOR_BINDING BINDING_ROPE_NORM
#include "common/tensor.glsl"

// row: of which batch entry, and which of its rows
uint start_of(uint strides[3], uvec2 row) {
    return row.x * strides[0] + workgroup().y * strides[1] + row.y * strides[2];
}

float inverse_rms(uint start) {
    float sum = 0.0;
    for (uint i = 0; i < 2 * push.pairs; ++i) sum += input_values[start + i] * input_values[start + i];
    return inversesqrt(sum / float(2 * push.pairs) + push.epsilon);
}

void main() {
    uint invocation = workgroup().x * ELEMENTWISE_WORKGROUP_SIZE + gl_LocalInvocationID.x;
    uvec2 row = uvec2(workgroup().z, invocation / push.pairs);
    uint pair = invocation % push.pairs;
    if (row.y >= push.total) return;
    uint sequence = row.x, token = row.y;
    if (HAS_CU_SEQLENS != 0u) {
        PackedToken packed = token_of_row(row.y, push.sequences, push.total);
        if (!packed.exists || packed.token >= push.positions) return;
        sequence = packed.sequence;
        token = packed.token;
    }
    uint past = push.offset;
    if (HAS_PAST_LENGTHS != 0u) past = uint(max(past_lengths[base_bytes(BINDING_ROPE_PAST_LENGTHS) / 4 + sequence], 0));

    uint frequency = base_bytes(BINDING_ROPE_FREQUENCIES) / 4 + 3 * pair;
    vec2 rotation = rotation_of(past + token, uvec3(frequency_words[frequency], frequency_words[frequency + 1],
                                                    frequency_words[frequency + 2]));

    uint first = INTERLEAVED != 0u ? 2 * pair : pair;
    uint second = INTERLEAVED != 0u ? 2 * pair + 1 : pair + push.pairs;
    uint from = base_bytes(BINDING_ROPE_INPUT) / 4 + start_of(push.input_strides, row);
    uint to = base_bytes(BINDING_ROPE_OUTPUT) / 4 + start_of(push.output_strides, row);
    vec2 x = vec2(input_values[from + first], input_values[from + second]);
    if (NORM_FORMAT != FORMAT_NONE)
        x *= inverse_rms(from) * vec2(norm_load(NORM_FORMAT, first), norm_load(NORM_FORMAT, second));
    output_values[to + first] = x.x * rotation.x - x.y * rotation.y;
    output_values[to + second] = x.x * rotation.y + x.y * rotation.x;
}
