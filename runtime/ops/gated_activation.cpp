#include "runtime/ops/gradients.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

// Makes rows, or sequences, one where they follow each other in every tensor, so that workgroups have enough to do.
void join(GatedActivationTensors &tensors, uint32_t dim) {
    for (const auto &row : GatedActivationTensors::table()) {
        const vkattn_tensor &tensor = (tensors.*row.member).tensor;
        if (present(tensor) && tensor.shape[dim] != 1 && tensor.strides[dim] != tensor.shape[2]) return;
    }
    for (const auto &row : GatedActivationTensors::table()) {
        vkattn_tensor &tensor = (tensors.*row.member).tensor;
        tensor.shape[2] *= tensor.shape[dim];
        tensor.shape[dim] = tensor.strides[2] = 1;
    }
}

void require_given(const View &view, const char *name, const vkattn_tensor &gate) {
    require(present(view), name, ": absent, expected ", shape_text(gate));
}

void check_gated(GatedActivationTensors &tensors, vkattn_activation activation) {
    require(activation >= VKATTN_ACTIVATION_NONE && activation <= VKATTN_ACTIVATION_SOFTPLUS,
            "activation: ", static_cast<int>(activation), ", expected a vkattn_activation");
    check_tensors(tensors);
    const vkattn_tensor &gate = tensors.gate.tensor;
    require(gate.shape[2] >= 1, "gate: shape ", shape_text(gate), ", expected [B,L,N] with N at least 1");
}

} // namespace

void add_gated_activation(PlanBuilder &builder, GatedActivationTensors tensors, vkattn_activation activation) {
    join(tensors, 1);
    if (tensors.gate.tensor.shape[1] == 1) join(tensors, 0);
    const vkattn_tensor &gate = tensors.gate.tensor;
    gpu::GatedActivationConstants constants;
    constants.ACTIVATION = static_cast<uint32_t>(activation);
    constants.IN_FOURS = are_in_fours(tensors);
    gpu::GatedActivationPush push{};
    push.features = static_cast<uint32_t>(gate.shape[2]);
    Step &step = add_step(builder, shaders::gated_activation, tensors, constants, push);
    step.groups = {tiles(gate.shape[2], GATED_ACTIVATION_FEATURES), tiles(gate.shape[1], 1), tiles(gate.shape[0], 1)};
    step.flops = kFlopsOfElement * static_cast<double>(gate.shape[0] * gate.shape[1] * gate.shape[2]);
}

void plan_gated_activation(PlanBuilder &builder, const vkattn_gated_activation_desc &desc) {
    GatedActivationTensors tensors = GatedActivationTensors::of(desc);
    check_gated(tensors, desc.activation);
    require_given(tensors.output, "output", tensors.gate.tensor);
    add_gated_activation(builder, tensors, desc.activation);
}

void plan_gated_activation_backward(PlanBuilder &builder, const vkattn_gated_activation_backward_desc &desc) {
    GatedActivationTensors tensors = GatedActivationTensors::of(desc);
    check_gated(tensors, desc.activation);
    require_given(tensors.d_output, "d_output", tensors.gate.tensor);
    require(present(tensors.input) || !present(tensors.d_input), "d_input: given without input, expected none");
    require(present(tensors.d_gate) || present(tensors.d_input), "d_gate, d_input: absent, expected one at least");
    add_gated_activation(builder, tensors, desc.activation);
}

} // namespace vkattn
