#pragma once

#include "runtime/emit/operator_tensors.hpp"
#include "shaders/interface/token_sums.h"

namespace vkattn {

VKATTN_OPERATOR(TokenSums, TOKEN_SUMS_TENSORS)

// sums [N] = the sum over all tokens of d_output [B,L,N], with an input [B,L,N] times its normalised numbers by statistics; or that
// added to what is there, F32. Parts of the tokens are summed in the workspace, and then those: the same order for any device.
void add_token_sums(PlanBuilder &builder, const TokenSumsTensors &tensors, bool accumulates);

// Fills [rows,N], last stride 1, with zeros.
void add_zeros(PlanBuilder &builder, const View &rows);

// Whether gradients of weights are added to what they hold. Fails, naming it, for what it cannot be and for one that is not F32 then.
bool checked_accumulate(uint32_t accumulate, const View &d_weight, const View &d_bias);

} // namespace vkattn
