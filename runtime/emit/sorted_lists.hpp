#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Adds steps that sort lists of keys [B,H,L,N] I32: each ascending, what is not below `blocks` last, as shaders/attention/
// keys.glsl reads them. Returns the copy, contiguous, in the workspace. Whoever reads it adds a barrier.
View sort_lists(PlanBuilder &builder, const View &lists, uint32_t blocks);

} // namespace vkattn
