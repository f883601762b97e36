// Counts the tokens that a cached call has appended: the last step of its recording, so that replaying the recording
// goes on where it ended.
//
// lengths I32 [B]: each plus `tokens`, at most the capacity; one invocation a sequence
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface/advance_lengths.h"

#define PUSH AdvancePush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_ADVANCE_LENGTHS, std430) buffer LengthsBuffer { int lengths[]; };

void main() {
    uint sequence = gl_GlobalInvocationID.x;
    if (sequence >= push.sequences) return;
    uint at = base_bytes(BINDING_ADVANCE_LENGTHS) / 4 + sequence;
    uint length = min(uint(max(lengths[at], 0)), push.capacity);
    lengths[at] = int(length + min(push.tokens, push.capacity - length));
}
