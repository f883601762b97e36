#pragma once

#include "runtime/plan.hpp"

namespace vkattn {

// output = input weight^T + bias, f32 accumulation.
//
// input [B,L,in], last stride 1; weight [out,in]; bias [out] contiguous, may be absent
// output [B,L,out], or [B,H,L,D] with H * D = out: feature h * D + d of token l goes to [b,h,l,d]
// F32, F16 or BF16 each.
void add_linear(Plan &plan, const View &input, const View &weight, const View &bias, const View &output);

} // namespace vkattn
