#pragma once

#include "runtime/emit/operator_tensors.hpp"
#include "shaders/interface/norm.h"

namespace vkattn {

enum class Norm { kRms, kLayer };

VKATTN_OPERATOR(Norm, NORM_TENSORS)

// Normalises each token of input [B,L,N] into output [B,L,N], which may be the same view; last strides 1. weight [N];
// bias [N] may be absent, and residual and gate [B,L,N], which output may be: the norm times silu(gate). F32, F16 or BF16 each.
void add_norm(PlanBuilder &builder, Norm norm, float epsilon, const NormTensors &tensors);

// Invocations that share a token of so many features.
uint32_t norm_workgroup_size(uint32_t features, const DeviceCaps &caps);

// What descriptions of norms, and of their gradients, say: fail with VKATTN_ERROR_INVALID_ARGUMENT, naming the member.
bool is_rms(vkattn_norm_kind kind);
float norm_epsilon_or(const vkattn_optional_float &given, bool rms);
uint64_t checked_norm_features(const vkattn_tensor &weight); // of [N]

} // namespace vkattn
