// Counts the tokens that a plan has appended to a cache: its last step, so that replaying the recording goes on where it
// ended.
//
// lengths I32 [B]: each plus `tokens`, or as many as cu_seqlens says, at most the capacity; one invocation a sequence
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface/advance_lengths.h"

ADVANCE_CONSTANTS(VKATTN_CONSTANT)

#define PUSH AdvancePush
#define CU_SEQLENS_BINDING BINDING_ADVANCE_CU_SEQLENS
#include "operators/packed.glsl"

layout(set = 0, binding = BINDING_ADVANCE_LENGTHS, std430) buffer LengthsBuffer { int lengths[]; };

void main() {
    uint sequence = workgroup().x * ELEMENTWISE_WORKGROUP_SIZE + gl_LocalInvocationID.x;
    if (sequence >= push.sequences) return;
    uint at = base_bytes(BINDING_ADVANCE_LENGTHS) / 4 + sequence;
    uint tokens = push.tokens;
    if (HAS_CU_SEQLENS != 0u) tokens = min(tokens, packed_rows(sequence, push.total).y);
    uint length = min(uint(max(lengths[at], 0)), push.capacity);
    lengths[at] = int(length + min(tokens, push.capacity - length));
}
