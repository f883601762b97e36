// Unfused attention, second of three: scores -> softcap, bias, masks -> weights, in place.
//
// scores [B,Hq,Lq,Lk] f32 in units of log 2 -> weights; also attn_weights, qk_matmul_output at SCORE_STAGE, log_sum_exp
// grid: (Lq, Hq, B), one workgroup a row; shared memory: one f32 an invocation. Each invocation owns the slots
// local index + n * UNFUSED_WORKGROUP_SIZE, so only the two reductions need barriers.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "attention/dropout.glsl"
#include "attention/key_walk.glsl"
#include "attention/score_terms.glsl"
#include "attention/scores.glsl"
#include "attention/softmax.glsl"

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

// Of every slot: the outputs show hidden keys as well. index: of the slot's key, in them.
float finish_score(float raw, Row row, Slot slot, uint index) {
    store_stage(SCORES_SCALED, index, raw * LN_2);
    store_stage(SCORES_CAPPED, index, cap_score(raw) * LN_2);
    float masked = score_key(raw, row, slot, KeyTile(Slot(0), all_slots(), false));
    store_stage(SCORES_MASKED, index, masked == HIDDEN ? HIDDEN : masked * LN_2);
    return masked;
}

void store_weights(float weight, uint element, uint index) {
    scores[element] = weight;
    if (has(FEATURE_ATTN_WEIGHTS)) attn_weights[base_bytes(BINDING_ATTN_WEIGHTS) / 4 + index] = weight;
    store_stage(SCORES_WEIGHTS, index, weight);
}

void main() {
    Row row = row_of_head(workgroup().z, workgroup().y, workgroup().x);
    uint row_start = row_index(row) * parameters.kv_len;
    uint scores_start = base_bytes(BINDING_SCORES) / 4 + row_index(row) * all_slots();

    Slot own = Slot(gl_LocalInvocationID.x);
    float maximum = LOWEST_MAXIMUM;
    for (Slot slot = own; slot.number < all_slots(); slot = advance(slot, UNFUSED_WORKGROUP_SIZE)) {
        uint index = row_start + key_of_slot(row, slot).number;
        float score = finish_score(scores[scores_start + slot.number], row, slot, index);
        scores[scores_start + slot.number] = score;
        maximum = max(maximum, score);
    }
    maximum = reduce_maximum(maximum);

    float sum = 0.0;
    for (Slot slot = own; slot.number < all_slots(); slot = advance(slot, UNFUSED_WORKGROUP_SIZE)) {
        float weight = exp2(scores[scores_start + slot.number] - maximum);
        scores[scores_start + slot.number] = weight;
        sum += weight;
    }
    SoftmaxState state = SoftmaxState(maximum, reduce_sum(sum));
    float rescale = softmax_denominator_scale(state, row);
    float normaliser = normaliser_of(state, rescale);
    for (Slot slot = own; slot.number < all_slots(); slot = advance(slot, UNFUSED_WORKGROUP_SIZE)) {
        Key key = key_of_slot(row, slot);
        float weight = scores[scores_start + slot.number] * normaliser * dropout_factor(row, key);
        store_weights(weight, scores_start + slot.number, row_start + key.number);
    }
    if (gl_LocalInvocationID.x == 0) store_log_sum_exp(state, row);
}
