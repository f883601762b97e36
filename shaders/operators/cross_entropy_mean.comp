// mean_loss = the sum of the losses over the number of labels that count; scale = loss_scale over that number. Where none counts: 0.
//
// labels I32 [B,L], loss F32 [B,L], loss_scale F32 [1] -> mean_loss F32 [1], where it is asked for, else scale F32 [1]
// grid: (1), one workgroup; an invocation adds up the rows local index + n * the workgroup's size
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 128) in;

#include "interface/cross_entropy.h"

CROSS_ENTROPY_CONSTANTS(VKATTN_CONSTANT)

#define PUSH CrossEntropyPush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_CROSS_ENTROPY_LABELS, std430) readonly buffer LabelsBuffer { int labels[]; };
layout(set = 0, binding = BINDING_CROSS_ENTROPY_LOSS, std430) readonly buffer LossBuffer { float losses[]; };
layout(set = 0, binding = BINDING_CROSS_ENTROPY_LOSS_SCALE, std430) readonly buffer LossScaleBuffer {
    float loss_scales[];
};
layout(set = 0, binding = BINDING_CROSS_ENTROPY_MEAN_LOSS, std430) writeonly buffer MeanLossBuffer {
    float mean_losses[];
};
layout(set = 0, binding = BINDING_CROSS_ENTROPY_SCALE, std430) writeonly buffer ScaleBuffer { float scales[]; };

#define REDUCE_SIZE CROSS_ENTROPY_MEAN_WORKGROUP_SIZE
#include "common/reduce.glsl"

#include "operators/cross_entropy.glsl"

void main() {
    float sum = 0.0, count = 0.0;
    for (uint row = gl_LocalInvocationID.x; row < push.batch * push.len; row += CROSS_ENTROPY_MEAN_WORKGROUP_SIZE) {
        uint b = row / push.len, l = row % push.len;
        if (!counts(uint(label_of(b, l)))) continue;
        count += 1.0;
        uint element = b * push.loss_strides[0] + l * push.loss_strides[1];
        if (HAS_MEAN_LOSS != 0u) sum += losses[base_bytes(BINDING_CROSS_ENTROPY_LOSS) / 4 + element];
    }
    count = max(reduce_sum(count), 1.0); // where it is 0, so is the sum
    if (HAS_MEAN_LOSS != 0u) {
        sum = reduce_sum(sum);
        if (gl_LocalInvocationID.x == 0) mean_losses[base_bytes(BINDING_CROSS_ENTROPY_MEAN_LOSS) / 4] = sum / count;
    } else if (gl_LocalInvocationID.x == 0) {
        float loss_scale = HAS_LOSS_SCALE != 0u ? loss_scales[base_bytes(BINDING_CROSS_ENTROPY_LOSS_SCALE) / 4] : 1.0;
        scales[base_bytes(BINDING_CROSS_ENTROPY_SCALE) / 4] = loss_scale / count;
    }
}
