#include "runtime/ops/norm.hpp"

#include "runtime/ops/operators.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/support/structures.hpp"
#include "shaders/interface/norm.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace vkattn {

namespace {

// So that an invocation has four fours of features on a GPU, whose loads are then all under way at the same time. A CPU driver has no
// use for more invocations.
uint32_t workgroup_size_of(uint32_t features, const DeviceCaps &caps) {
    constexpr uint32_t kLeast = 64, kFeatures = 16; // of an invocation
    if (caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) return kLeast;
    const uint32_t most = std::min(uint32_t{256}, std::bit_floor(caps.max_workgroup_invocations));
    return std::clamp(std::bit_ceil(divide_up(features, kFeatures)), kLeast, most);
}

} // namespace

void add_norm(PlanBuilder &builder, Norm norm, float epsilon, const NormTensors &tensors) {
    const auto features = static_cast<uint32_t>(tensors.input.tensor.shape[2]);
    gpu::NormConstants constants;
    constants.WORKGROUP_SIZE = workgroup_size_of(features, builder.context().caps());
    constants.SUBTRACTS_MEAN = norm == Norm::kLayer;
    constants.IN_FOURS = features % 4 == 0;
    for (const auto &row : NormTensors::table())
        if (const View &view = tensors.*row.member; present(view) && !rows_start_even(view.tensor))
            constants.IN_FOURS = 0;
    gpu::NormPush push{};
    push.features = features;
    push.epsilon = epsilon;
    Step &step = add_step(builder, shaders::norm, tensors, constants, push);
    set_token_grid(step, tensors.input.tensor);
}

namespace {

void check_norm(NormTensors &tensors) {
    const vkattn_tensor weight = normalised(tensors.weight.tensor, "weight");
    require(present(weight) && weight.rank == 1 && weight.shape[0] >= 1, "weight: shape ", shape_text(weight),
            ", expected [N] with N at least 1");
    check_tensors(tensors, {{'N', weight.shape[0]}});
}

} // namespace

void plan_norm(PlanBuilder &builder, const vkattn_norm_desc &desc) {
    require(desc.kind == VKATTN_NORM_RMS || desc.kind == VKATTN_NORM_LAYER, "kind: ", static_cast<int>(desc.kind),
            ", expected a vkattn_norm_kind");
    const bool rms = desc.kind == VKATTN_NORM_RMS;
    const float epsilon = epsilon_or(desc.epsilon, rms ? 1e-6f : 1e-5f, "epsilon");
    NormTensors tensors = NormTensors::of(desc);
    check_norm(tensors);
    add_norm(builder, rms ? Norm::kRms : Norm::kLayer, epsilon, tensors);
}

void plan_gated_rms_norm(PlanBuilder &builder, const vkattn_gated_rms_norm_desc &desc) {
    const float epsilon = epsilon_or(desc.epsilon, 1e-6f, "epsilon");
    NormTensors tensors = NormTensors::of(desc);
    require(present(tensors.gate), "gate: absent, expected ", shape_text(desc.input));
    check_norm(tensors);
    add_norm(builder, Norm::kRms, epsilon, tensors);
}

} // namespace vkattn
