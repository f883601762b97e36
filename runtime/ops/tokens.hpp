#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Tensors that callers give to layers and operators: tokens [B,L,width] and vectors.

constexpr uint64_t kAnySize = UINT64_MAX;

// The tensor, normalised; fails, naming it, unless it is [B,L,width] of floats with last stride 1,
// of at most 2^29 tokens. batch, len: those sizes, or kAnySize.
vkattn_tensor checked_tokens(const vkattn_tensor &given, const char *name, uint64_t batch, uint64_t len,
                             uint64_t width);

// The same of "output", and no two elements share a place.
vkattn_tensor checked_output_tokens(const vkattn_tensor &given, uint64_t batch, uint64_t len, uint64_t width);

// The tensor, normalised; fails, naming it, unless it is absent or floats [size], contiguous.
vkattn_tensor checked_vector(const vkattn_tensor &given, const char *name, uint64_t size);

// The grid of a kernel that gives each token of [B,L,N] a workgroup.
void set_token_grid(Step &step, const vkattn_tensor &tokens);

} // namespace vkattn
