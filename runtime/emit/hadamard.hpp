#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Rotates rows of source [B,H,L,D] into target [B,H,L,D], which may be the same view, in blocks of so many elements, above 1,
// that divide D. F32, F16 or BF16 each. cu_seqlens: rows are packed, sequences of at most `longest`; those of none stay as
// they are. factor: of what is written.
void add_hadamard(PlanBuilder &builder, const View &source, const View &target, uint32_t block,
                  const View &cu_seqlens = {}, uint32_t longest = 0, float factor = 1.0f);

} // namespace vkattn
