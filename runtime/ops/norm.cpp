#include "runtime/ops/norm.hpp"

#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/extensions.hpp"
#include "shaders/interface/norm.h"
#include "vkattn_shaders/table.hpp"

#include <cmath>

namespace vkattn {

void add_norm(PlanBuilder &builder, Norm norm, float epsilon, const View &input, const View &weight, const View &bias,
              const View &output, const View &residual, const View &gate) {
    gpu::NormPush push{};
    push.features = static_cast<uint32_t>(input.tensor.shape[2]);
    push.epsilon = epsilon;
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.input_strides[dim] = static_cast<uint32_t>(input.tensor.strides[dim]);
        push.output_strides[dim] = static_cast<uint32_t>(output.tensor.strides[dim]);
        push.residual_strides[dim] = static_cast<uint32_t>(residual.tensor.strides[dim]);
        push.gate_strides[dim] = static_cast<uint32_t>(gate.tensor.strides[dim]);
    }
    gpu::NormConstants constants;
    constants.SUBTRACTS_MEAN = norm == Norm::kLayer;
    constants.INPUT_FORMAT = format_of(input.tensor);
    constants.WEIGHT_FORMAT = format_of(weight.tensor);
    constants.BIAS_FORMAT = format_of(bias.tensor);
    constants.OUTPUT_FORMAT = format_of(output.tensor);
    constants.RESIDUAL_FORMAT = format_of(residual.tensor);
    constants.GATE_FORMAT = format_of(gate.tensor);
    constants.OUTPUT_PAIRS = rows_start_even(output.tensor);
    constants.IN_FOURS = push.features % 4 == 0;
    for (const View *view : {&input, &weight, &bias, &output, &residual, &gate})
        if (present(*view) && !rows_start_even(view->tensor)) constants.IN_FOURS = 0;
    Step &step = builder.add_step(shaders::norm, constants, push);
    set_token_grid(step, input.tensor);
    bind(builder, step, BINDING_NORM_INPUT, input);
    bind(builder, step, BINDING_NORM_WEIGHT, weight);
    bind(builder, step, BINDING_NORM_BIAS, bias);
    bind(builder, step, BINDING_NORM_OUTPUT, output);
    bind(builder, step, BINDING_NORM_RESIDUAL, residual);
    bind(builder, step, BINDING_NORM_GATE, gate);
}

namespace {

void require_epsilon(float epsilon) {
    require(std::isfinite(epsilon) && epsilon >= 0, "epsilon: ", epsilon, ", expected a finite number, 0 or above");
}

// [N] with N at least 1.
vkattn_tensor checked_weight(const vkattn_tensor &given) {
    const vkattn_tensor weight = normalised(given, "weight");
    require(present(weight) && weight.rank == 1 && weight.shape[0] >= 1, "weight: shape ", shape_text(weight),
            ", expected [N] with N at least 1");
    return weight;
}

View checked_residual(const void *next, const vkattn_tensor &input) {
    const vkattn_extension *given = extension_of(next, VKATTN_EXTENSION_NORM_RESIDUAL);
    if (given == nullptr) return {};
    const vkattn_tensor &residual = reinterpret_cast<const vkattn_norm_residual *>(given)->residual;
    require(present(residual), "residual: absent, expected ", shape_text(input));
    return role_view(checked_tokens(residual, "residual", input.shape[0], input.shape[1], input.shape[2]),
                     VKATTN_ROLE_RESIDUAL);
}

} // namespace

void plan_norm(PlanBuilder &builder, const vkattn_norm_desc &desc) {
    require(desc.kind == VKATTN_NORM_RMS || desc.kind == VKATTN_NORM_LAYER, "kind: ", static_cast<int>(desc.kind),
            ", expected a vkattn_norm_kind");
    require_epsilon(desc.epsilon);
    const vkattn_tensor weight = checked_weight(desc.weight);
    const uint64_t features = weight.shape[0];
    const vkattn_tensor input = checked_tokens(desc.input, "input", kAnySize, kAnySize, features);
    const vkattn_tensor output = checked_output_tokens(desc.output, input.shape[0], input.shape[1], features);
    const bool rms = desc.kind == VKATTN_NORM_RMS;
    const float epsilon = desc.epsilon != 0 ? desc.epsilon : rms ? 1e-6f : 1e-5f;
    add_norm(builder, rms ? Norm::kRms : Norm::kLayer, epsilon, role_view(input, VKATTN_ROLE_INPUT),
             role_view(checked_vector(weight, "weight", features), VKATTN_ROLE_WEIGHT),
             role_view(checked_vector(desc.bias, "bias", features), VKATTN_ROLE_BIAS),
             role_view(output, VKATTN_ROLE_OUTPUT), checked_residual(desc.next, input));
}

void plan_gated_rms_norm(PlanBuilder &builder, const vkattn_gated_rms_norm_desc &desc) {
    require_epsilon(desc.epsilon);
    const vkattn_tensor weight = checked_weight(desc.weight);
    const uint64_t features = weight.shape[0];
    const vkattn_tensor input = checked_tokens(desc.input, "input", kAnySize, kAnySize, features);
    const vkattn_tensor gate = checked_tokens(desc.gate, "gate", input.shape[0], input.shape[1], features);
    const vkattn_tensor output = checked_output_tokens(desc.output, input.shape[0], input.shape[1], features);
    add_norm(builder, Norm::kRms, desc.epsilon != 0 ? desc.epsilon : 1e-6f, role_view(input, VKATTN_ROLE_INPUT),
             role_view(checked_vector(weight, "weight", features), VKATTN_ROLE_WEIGHT), {},
             role_view(output, VKATTN_ROLE_OUTPUT), {}, role_view(gate, VKATTN_ROLE_MULTIPLIER));
}

} // namespace vkattn
