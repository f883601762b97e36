#include "shaders/interface/norm_backward.h"
#include "runtime/ops/gradients.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/token_sums.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

VKATTN_OPERATOR(NormBackward, NORM_BACKWARD_TENSORS)

void add_tokens(PlanBuilder &builder, const NormBackwardTensors &tensors, bool subtracts_mean, float epsilon) {
    const vkattn_tensor &input = tensors.input.tensor;
    gpu::NormBackwardConstants constants;
    constants.WORKGROUP_SIZE = norm_workgroup_size(static_cast<uint32_t>(input.shape[2]), builder.context().caps());
    constants.SUBTRACTS_MEAN = subtracts_mean;
    constants.IN_FOURS = input.shape[2] % 4 == 0 && are_in_fours(tensors);
    gpu::NormBackwardPush push{};
    push.features = static_cast<uint32_t>(input.shape[2]);
    push.positions = static_cast<uint32_t>(input.shape[1]);
    push.epsilon = epsilon;
    Step &step = add_step(builder, shaders::norm_backward, tensors, constants, push);
    set_token_grid(step, input);
}

} // namespace

void add_norm_backward(PlanBuilder &builder, Norm norm, float epsilon, const NormGradients &gradients) {
    NormBackwardTensors tensors{.input = gradients.input,
                                .weight = gradients.weight,
                                .d_output = gradients.d_output,
                                .residual = gradients.residual,
                                .d_input = gradients.d_input};
    const vkattn_tensor &input = tensors.input.tensor;
    if (present(gradients.d_weight) && !is_empty(input)) {
        tensors.statistics.tensor = contiguous(VKATTN_TYPE_F32, {input.shape[0] * input.shape[1], 2});
        tensors.statistics.source = builder.reserve_workspace(extent_bytes(tensors.statistics.tensor));
    }
    if (present(tensors.d_input) || present(tensors.statistics))
        add_tokens(builder, tensors, norm == Norm::kLayer, epsilon);
    if (present(gradients.d_bias))
        add_token_sums(builder, {.d_output = tensors.d_output, .sums = gradients.d_bias}, gradients.accumulates);
    if (!present(gradients.d_weight)) return;
    builder.barrier();
    add_token_sums(builder,
                   {.d_output = tensors.d_output,
                    .input = tensors.input,
                    .statistics = tensors.statistics,
                    .sums = gradients.d_weight},
                   gradients.accumulates);
}

void plan_norm_backward(PlanBuilder &builder, const vkattn_norm_backward_desc &desc) {
    const bool rms = is_rms(desc.kind);
    const float epsilon = norm_epsilon_or(desc.epsilon, rms);
    NormBackwardTensors tensors = NormBackwardTensors::of(desc);
    const uint64_t features = checked_norm_features(tensors.weight.tensor);
    check_tensors(tensors, {{'N', features}});
    const View d_weight = role_view(checked_vector(desc.d_weight, "d_weight", features), VKATTN_ROLE_D_WEIGHT);
    const View d_bias = role_view(checked_vector(desc.d_bias, "d_bias", features), VKATTN_ROLE_D_BIAS);
    require(present(tensors.d_input) || present(d_weight) || present(d_bias),
            "d_input, d_weight, d_bias: absent, expected one of them at least");
    require(!present(tensors.residual) || present(tensors.d_input), "residual: given without d_input, expected none");
    const bool accumulates = checked_accumulate(desc.accumulate, d_weight, d_bias);
    allow_roles(builder, tensors);
    for (const View *view : {&d_weight, &d_bias}) allow_role(builder, *view);
    add_norm_backward(builder, rms ? Norm::kRms : Norm::kLayer, epsilon,
                      {tensors.input, tensors.weight, tensors.d_output, tensors.residual, tensors.d_input, d_weight,
                       d_bias, accumulates});
}

} // namespace vkattn
