// Joins attention over disjoint sets of keys: (output, log_sum_exp) of each set give those of their union.
// Associative and commutative to rounding; a set whose log_sum_exp is -inf is left out. The sets are summed in their
// order, so the same call gives the same bits.
//
// partial_output parts times [B,Hq,Lq,Dv], partial_log_sum_exp parts times [B,Hq,Lq] -> output, log_sum_exp, which with
// ACCUMULATES hold one more set before
// grid: (Lq, Hq, B), one workgroup a row; an invocation owns the pairs of dims 2 * (local index + n * workgroup size).
#version 460
#extension GL_GOOGLE_include_directive : require

#include "interface/merge.h"

layout(local_size_x = MERGE_WORKGROUP_SIZE) in;

MERGE_CONSTANTS(VKATTN_CONSTANT)

#define PUSH MergePush
#include "common/push.glsl"

#define TENSOR partial
#define TENSOR_BINDING BINDING_MERGE_PARTIAL_OUTPUT
#include "common/tensor.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_MERGE_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_MERGE_PARTIAL_LOG_SUM_EXP, std430) readonly buffer PartialSumsBuffer {
    float partial_log_sum_exps[];
};
layout(set = 0, binding = BINDING_MERGE_LOG_SUM_EXP, std430) buffer LogSumExpBuffer { uint log_sum_exp_words[]; };

const float LOWEST = -1.0e38; // below lies -inf: not every device keeps infinities
const float LOG2_E = 1.44269504088896340736;

uint partial_element() {
    return workgroup().z * push.partial_output_strides[0] + workgroup().y * push.partial_output_strides[1] +
           workgroup().x * push.partial_output_strides[2];
}

uint output_element() {
    return workgroup().z * push.output_strides[0] + workgroup().y * push.output_strides[1] +
           workgroup().x * push.output_strides[2];
}

float partial_log_sum_exp(uint part) {
    return partial_log_sum_exps[base_bytes(BINDING_MERGE_PARTIAL_LOG_SUM_EXP) / 4 +
                                part * push.log_sum_exp_part_stride +
                                workgroup().z * push.partial_log_sum_exp_strides[0] +
                                workgroup().y * push.partial_log_sum_exp_strides[1] +
                                workgroup().x * push.partial_log_sum_exp_strides[2]];
}

uint log_sum_exp_word() {
    return base_bytes(BINDING_MERGE_LOG_SUM_EXP) / 4 + (workgroup().z * push.heads + workgroup().y) * push.rows +
           workgroup().x;
}

// exp(log_sum_exp - maximum), 0 for a set that saw no key. What is not a number stays so.
float weight(float log_sum_exp, float maximum) {
    return log_sum_exp <= LOWEST ? 0.0 : exp2((log_sum_exp - maximum) * LOG2_E);
}

vec2 load_pair_of_part(uint element, bool second) {
    float value = partial_load(PARTIAL_OUTPUT_FORMAT, element);
    return vec2(value, second ? partial_load(PARTIAL_OUTPUT_FORMAT, element + push.partial_output_strides[3]) : 0.0);
}

vec2 join_pair(uint dim, bool second, float own, float maximum) {
    vec2 sum = vec2(0);
    uint at = output_element() + dim * push.output_strides[3];
    if (ACCUMULATES != 0u && weight(own, maximum) != 0.0) {
        sum.x = output_load(OUTPUT_FORMAT, at);
        if (second) sum.y = output_load(OUTPUT_FORMAT, at + push.output_strides[3]);
        sum *= weight(own, maximum);
    }
    for (uint part = 0; part < push.parts; ++part) {
        float scale = weight(partial_log_sum_exp(part), maximum);
        uint element = partial_element() + part * push.output_part_stride + dim * push.partial_output_strides[3];
        if (scale != 0.0) sum += scale * load_pair_of_part(element, second);
    }
    return sum;
}

void main() {
    float own = ACCUMULATES != 0u ? uintBitsToFloat(log_sum_exp_words[log_sum_exp_word()]) : 2.0 * LOWEST;
    memoryBarrierBuffer();
    barrier(); // all have read it before one writes it
    float maximum = max(own, LOWEST);
    for (uint part = 0; part < push.parts; ++part) maximum = max(maximum, partial_log_sum_exp(part));
    float sum = ACCUMULATES != 0u ? weight(own, maximum) : 0.0;
    for (uint part = 0; part < push.parts; ++part) sum += weight(partial_log_sum_exp(part), maximum);

    float scale = sum == 0.0 ? 0.0 : 1.0 / sum;
    for (uint dim = 2 * gl_LocalInvocationID.x; dim < push.dims; dim += 2 * MERGE_WORKGROUP_SIZE) {
        bool second = dim + 1 < push.dims;
        vec2 pair = scale * join_pair(dim, second, own, maximum);
        uint at = output_element() + dim * push.output_strides[3];
        if (second)
            output_store2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0u, at, push.output_strides[3], pair);
        else
            output_store(OUTPUT_FORMAT, at, pair.x);
    }
    if (HAS_LOG_SUM_EXP != 0u && gl_LocalInvocationID.x == 0)
        log_sum_exp_words[log_sum_exp_word()] =
            sum == 0.0 ? 0xff800000u : floatBitsToUint(maximum + log2(sum) / LOG2_E);
}
