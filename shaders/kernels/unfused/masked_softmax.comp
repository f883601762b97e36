// Unfused attention, second of three: scores -> softcap, bias, masks -> weights, in place.
//
// scores [B,Hq,Lq,Lk] f32 in units of log 2 -> weights; also attn_weights, qk_matmul_output at SCORE_STAGE, log_sum_exp
// grid: (Lq, Hq, B), one workgroup a row; shared memory: one f32 an invocation. Each invocation owns the keys
// local index + n * UNFUSED_WORKGROUP_SIZE, so only the two reductions need barriers.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "attention/dropout.glsl"
#include "attention/score_terms.glsl"
#include "attention/scores.glsl"
#include "attention/softmax.glsl"
#include "attention/variant.glsl"

layout(local_size_x = UNFUSED_WORKGROUP_SIZE) in;

#define REDUCE_SIZE UNFUSED_WORKGROUP_SIZE
#include "common/reduce.glsl"

layout(set = 0, binding = BINDING_ATTN_WEIGHTS, std430) writeonly buffer WeightsBuffer { float attn_weights[]; };
layout(set = 0, binding = BINDING_QK_MATMUL_OUTPUT, std430) writeonly buffer QkOutputBuffer {
    float qk_matmul_output[];
};

void store_stage(const uint stage, uint index, float value) {
    if (!has(FEATURE_QK_MATMUL_OUTPUT) || SCORE_STAGE != stage) return;
    qk_matmul_output[base_bytes(BINDING_QK_MATMUL_OUTPUT) / 4 + index] =
        value <= HIDDEN ? uintBitsToFloat(0xff800000u) : value;
}

float finish_score(float raw, Row row, uint key, uint index) {
    store_stage(SCORES_SCALED, index, raw * LN_2);
    float capped = cap_score(raw);
    store_stage(SCORES_CAPPED, index, capped * LN_2);
    float masked = mask_score(bias_score(capped, row, key), row, key);
    store_stage(SCORES_MASKED, index, masked == HIDDEN ? HIDDEN : masked * LN_2);
    return masked;
}

void store_weights(float weight, uint index) {
    scores[base_bytes(BINDING_SCORES) / 4 + index] = weight;
    if (has(FEATURE_ATTN_WEIGHTS)) attn_weights[base_bytes(BINDING_ATTN_WEIGHTS) / 4 + index] = weight;
    store_stage(SCORES_WEIGHTS, index, weight);
}

void main() {
    Row row = row_of_head(workgroup().z, workgroup().y, workgroup().x);
    uint row_start = row_index(row) * parameters.kv_len;
    uint scores_start = base_bytes(BINDING_SCORES) / 4 + row_start;

    float maximum = LOWEST_MAXIMUM;
    for (uint key = gl_LocalInvocationID.x; key < parameters.kv_len; key += UNFUSED_WORKGROUP_SIZE) {
        float score = finish_score(scores[scores_start + key], row, key, row_start + key);
        scores[scores_start + key] = score;
        maximum = max(maximum, score);
    }
    maximum = reduce_maximum(maximum);

    float sum = 0.0;
    for (uint key = gl_LocalInvocationID.x; key < parameters.kv_len; key += UNFUSED_WORKGROUP_SIZE) {
        float weight = exp2(scores[scores_start + key] - maximum);
        scores[scores_start + key] = weight;
        sum += weight;
    }
    SoftmaxState state = SoftmaxState(maximum, reduce_sum(sum));
    float rescale = softmax_denominator_scale(state, row);
    float normaliser = state.sum > 0.0 ? rescale / state.sum : 0.0;
    for (uint key = gl_LocalInvocationID.x; key < parameters.kv_len; key += UNFUSED_WORKGROUP_SIZE)
        store_weights(scores[scores_start + key] * normaliser * dropout_factor(row, key), row_start + key);
    if (gl_LocalInvocationID.x == 0) store_log_sum_exp(state, row);
}
