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

// So that an invocation has four fours of features on a GPU, whose loads are then all under way at the same time. A CPU driver has no
// use for more invocations.
uint32_t norm_workgroup_size(uint32_t features, const DeviceCaps &caps) {
    constexpr uint32_t kLeast = 64, kFeatures = 16; // of an invocation
    if (caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) return kLeast;
    const uint32_t most = std::min(uint32_t{256}, std::bit_floor(caps.max_workgroup_invocations));
    return std::clamp(std::bit_ceil(divide_up(features, kFeatures)), kLeast, most);
}

bool is_rms(vkattn_norm_kind kind) {
    require(kind == VKATTN_NORM_RMS || kind == VKATTN_NORM_LAYER, "kind: ", static_cast<int>(kind),
            ", expected a vkattn_norm_kind");
    return kind == VKATTN_NORM_RMS;
}

float norm_epsilon_or(const vkattn_optional_float &given, bool rms) {
    return epsilon_or(given, rms ? 1e-6f : 1e-5f, "epsilon");
}

uint64_t checked_norm_features(const vkattn_tensor &given) {
    const vkattn_tensor weight = normalised(given, "weight");
    require(present(weight) && weight.rank == 1 && weight.shape[0] >= 1, "weight: shape ", shape_text(weight),
            ", expected [N] with N at least 1");
    return weight.shape[0];
}

void add_norm(PlanBuilder &builder, Norm norm, float epsilon, const NormTensors &tensors) {
    const auto features = static_cast<uint32_t>(tensors.input.tensor.shape[2]);
    gpu::NormConstants constants;
    constants.WORKGROUP_SIZE = norm_workgroup_size(features, builder.context().caps());
    constants.SUBTRACTS_MEAN = norm == Norm::kLayer;
    constants.IN_FOURS = features % 4 == 0 && are_in_fours(tensors);
    gpu::NormPush push{};
    push.features = features;
    push.epsilon = epsilon;
    Step &step = add_step(builder, shaders::norm, tensors, constants, push);
    set_token_grid(step, tensors.input.tensor);
}

void plan_norm(PlanBuilder &builder, const vkattn_norm_desc &desc) {
    const bool rms = is_rms(desc.kind);
    const float epsilon = norm_epsilon_or(desc.epsilon, rms);
    NormTensors tensors = NormTensors::of(desc);
    check_tensors(tensors, {{'N', checked_norm_features(tensors.weight.tensor)}});
    add_norm(builder, rms ? Norm::kRms : Norm::kLayer, epsilon, tensors);
}

void plan_gated_rms_norm(PlanBuilder &builder, const vkattn_gated_rms_norm_desc &desc) {
    const float epsilon = norm_epsilon_or(desc.epsilon, true);
    NormTensors tensors = NormTensors::of(desc);
    require(present(tensors.gate), "gate: absent, expected ", shape_text(desc.input));
    check_tensors(tensors, {{'N', checked_norm_features(tensors.weight.tensor)}});
    add_norm(builder, Norm::kRms, epsilon, tensors);
}

} // namespace vkattn
