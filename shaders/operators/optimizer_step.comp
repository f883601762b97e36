// factor = min(1, max_norm / (norm + 1e-6)) / loss_scale, of norm = sqrt(squared_norm) / loss_scale, and one step more; or, where
// squared_norm is not finite, factor = 0. Then the next loss_scale.
// grid: (1), one invocation
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 1) in;

#include "interface/optimizer_step.h"

OPTIMIZER_STEP_CONSTANTS(VKATTN_CONSTANT)

#define PUSH OptimizerStepPush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_OPTIMIZER_STEP_SQUARED_NORM, std430) readonly buffer SquaredNormBuffer {
    uint squared_norms[];
};
layout(set = 0, binding = BINDING_OPTIMIZER_STEP_LOSS_SCALE, std430) buffer LossScaleBuffer { float loss_scales[]; };
layout(set = 0, binding = BINDING_OPTIMIZER_STEP_GOOD_STEPS, std430) buffer GoodStepsBuffer { int good_steps[]; };
layout(set = 0, binding = BINDING_OPTIMIZER_STEP_FACTOR, std430) writeonly buffer FactorBuffer { float factors[]; };
layout(set = 0, binding = BINDING_OPTIMIZER_STEP_STEP, std430) buffer StepBuffer { int steps[]; };

// Told by its bits, so that no compiler's rules for NaN matter.
bool is_finite(uint bits) { return (bits & 0x7f800000u) != 0x7f800000u; }

void update_loss_scale(float loss_scale, bool is_taken) {
    uint at_scale = base_bytes(BINDING_OPTIMIZER_STEP_LOSS_SCALE) / 4;
    uint at_steps = base_bytes(BINDING_OPTIMIZER_STEP_GOOD_STEPS) / 4;
    uint good = is_taken ? uint(good_steps[at_steps]) + 1 : 0;
    float grown = loss_scale * push.growth_factor;
    if (!is_taken) loss_scales[at_scale] = loss_scale * push.backoff_factor;
    if (good >= push.growth_interval) {
        good = 0;
        if (is_finite(floatBitsToUint(grown))) loss_scales[at_scale] = grown;
    }
    good_steps[at_steps] = int(good);
}

void main() {
    uint bits = squared_norms[base_bytes(BINDING_OPTIMIZER_STEP_SQUARED_NORM) / 4];
    float loss_scale = HAS_LOSS_SCALE != 0u ? loss_scales[base_bytes(BINDING_OPTIMIZER_STEP_LOSS_SCALE) / 4] : 1.0;
    float norm = sqrt(uintBitsToFloat(bits)) / loss_scale;
    float factor = (push.max_norm > 0.0 ? min(1.0, push.max_norm / (norm + 1e-6)) : 1.0) / loss_scale;
    // A loss scale that has become so small that its reciprocal is infinite has made gradients 0, whose norm is finite.
    const float LEAST_LOSS_SCALE = 1.1754944e-38;
    bool is_taken = is_finite(bits) && abs(loss_scale) >= LEAST_LOSS_SCALE && is_finite(floatBitsToUint(factor));
    if (is_taken) steps[base_bytes(BINDING_OPTIMIZER_STEP_STEP) / 4] += 1;
    factors[base_bytes(BINDING_OPTIMIZER_STEP_FACTOR) / 4] = is_taken ? factor : 0.0;
    if (HAS_GOOD_STEPS != 0u) update_loss_scale(loss_scale, is_taken);
}
