#pragma once

#include "runtime/emit/operator_tensors.hpp"
#include "shaders/interface/norm.h"

namespace vkattn {

enum class Norm { kRms, kLayer };

VKATTN_OPERATOR(Norm, NORM_TENSORS)

// Normalises each token of input [B,L,N] into output [B,L,N], which may be the same view; last strides 1. weight [N];
// bias [N] may be absent, and residual and gate [B,L,N], which output may be: the norm times silu(gate). F32, F16 or BF16 each.
void add_norm(PlanBuilder &builder, Norm norm, float epsilon, const NormTensors &tensors);

} // namespace vkattn
