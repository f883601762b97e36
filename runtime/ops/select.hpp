#pragma once

#include "runtime/emit/operator_tensors.hpp"
#include "shaders/interface/select.h"

namespace vkattn {

VKATTN_OPERATOR(Select, SELECT_TENSORS)

// Rows of ranks (shaders/common/rank.glsl), and the indices that they stand for; without indices each stands for itself.
struct Ranked {
    View ranks;   // [rows,N] I32
    View indices; // the same, or absent
};

// Adds steps that select the `most` highest ranks of each row, in the order of the row, at most SELECT_MOST. numbers: floats
// [B,L,N] in place of from's ranks, or absent. indices: where they go, [rows,most] I32; absent: into the workspace. What a row
// has too few of is nothing, -1. Ranks are kept only with `keeps_ranks`. Each step waits for the one before it; whoever reads
// what is selected adds a barrier.
Ranked add_select(PlanBuilder &builder, const View &numbers, Ranked from, uint32_t most, const View &indices,
                  bool keeps_ranks);

} // namespace vkattn
