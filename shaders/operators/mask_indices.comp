// key_indices[b,h,q] = the keys that attn_mask[b,h,q] lets be seen, ascending; -1 behind them. What finds no room is left out.
//
// attn_mask [B|1,H|1,Q|1,Lm] -> key_indices I32 [B,H,Q,N]
// grid: (Q, H, B)
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "interface/mask_indices.h"

MASK_INDICES_CONSTANTS(VKATTN_CONSTANT)

#define PUSH MaskIndicesPush
#include "attention/lowest_bias.glsl"
#include "common/push.glsl"

#define TENSOR mask
#define TENSOR_BINDING BINDING_MASK_INDICES_MASK
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_MASK_INDICES_KEY_INDICES, std430) writeonly buffer KeyIndicesBuffer {
    int key_indices[];
};

shared uint counts[MASK_INDICES_WORKGROUP_SIZE];

uint row_of(const uint strides[3]) {
    return workgroup().z * strides[0] + workgroup().y * strides[1] + workgroup().x * strides[2];
}

bool is_visible(uint element) {
    if (MASK_FORMAT != FORMAT_BOOL) return !(mask_load(MASK_FORMAT, element) < LOWEST_BIAS);
    uint byte_offset = base_bytes(BINDING_MASK_INDICES_MASK) + element;
    return bitfieldExtract(mask_words[byte_offset / 4], int(byte_offset % 4) * 8, 8) != 0u;
}

// A bit for each of the invocation's keys.
uint visible_keys(uint row, uint first) {
    uint visible = 0;
    for (uint i = 0; i < MASK_INDICES_KEYS; ++i)
        if (first + i < push.mask_len && is_visible(row + first + i)) visible |= 1u << i;
    return visible;
}

// Makes each of counts the sum of it and of those before it.
void sum_counts(uint lane) {
    for (uint step = 1; step < MASK_INDICES_WORKGROUP_SIZE; step *= 2) {
        barrier();
        uint before = lane >= step ? counts[lane - step] : 0;
        barrier();
        counts[lane] += before;
    }
    barrier();
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    uint mask = row_of(push.attn_mask_strides);
    uint list = base_bytes(BINDING_MASK_INDICES_KEY_INDICES) / 4 + row_of(push.key_indices_strides);
    uint found = 0; // keys that were seen so far
    const uint keys = MASK_INDICES_WORKGROUP_SIZE * MASK_INDICES_KEYS;
    for (uint first = 0; first < push.mask_len && found < push.list_len; first += keys) {
        uint own = first + lane * MASK_INDICES_KEYS, visible = visible_keys(mask, own);
        counts[lane] = bitCount(visible);
        sum_counts(lane);
        uint at = found + counts[lane] - bitCount(visible);
        for (; visible != 0 && at < push.list_len; ++at) {
            uint key = findLSB(visible);
            key_indices[list + at] = int(own + key);
            visible &= visible - 1;
        }
        found += counts[MASK_INDICES_WORKGROUP_SIZE - 1];
        barrier(); // the last readers of counts are done
    }
    for (uint at = found + lane; at < push.list_len; at += MASK_INDICES_WORKGROUP_SIZE) key_indices[list + at] = -1;
}
