#include "runtime/ops/operators.hpp"

#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"
#include "shaders/interface/optimizer_step.h"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

VKATTN_OPERATOR(OptimizerStep, OPTIMIZER_STEP_TENSORS)

OptimizerStepTensors checked(const vkattn_optimizer_step_desc &desc) {
    OptimizerStepTensors tensors = OptimizerStepTensors::of(desc);
    check_tensors(tensors, {{'S', 1}});
    require(present(tensors.squared_norm), "squared_norm: absent, expected F32 [1]");
    require(present(tensors.factor), "factor: absent, expected F32 [1]");
    require(present(tensors.step), "step: absent, expected I32 [1]");
    require(present(tensors.loss_scale) || !present(tensors.good_steps),
            "good_steps: given without loss_scale, expected none");
    return tensors;
}

gpu::OptimizerStepPush push_of(const vkattn_optimizer_step_desc &desc) {
    constexpr uint32_t kUsualInterval = 2000;
    gpu::OptimizerStepPush push{};
    push.max_norm = finite_or(desc.max_norm, 0.0f, "max_norm");
    require(desc.max_norm.present == 0 || push.max_norm > 0, "max_norm: ", push.max_norm,
            ", expected a number above 0");
    push.growth_factor = finite_or(desc.growth_factor, 2.0f, "growth_factor");
    require(push.growth_factor >= 1, "growth_factor: ", push.growth_factor, ", expected at least 1");
    push.backoff_factor = finite_or(desc.backoff_factor, 0.5f, "backoff_factor");
    require(push.backoff_factor > 0 && push.backoff_factor <= 1, "backoff_factor: ", push.backoff_factor,
            ", expected a number above 0, at most 1");
    push.growth_interval = desc.growth_interval != 0 ? desc.growth_interval : kUsualInterval;
    return push;
}

} // namespace

void plan_optimizer_step(PlanBuilder &builder, const vkattn_optimizer_step_desc &desc) {
    const OptimizerStepTensors tensors = checked(desc);
    Step &step = add_step(builder, shaders::optimizer_step, tensors, {}, push_of(desc));
    step.groups = {1, 1, 1};
    step.flops = kFlopsOfElement;
}

} // namespace vkattn
