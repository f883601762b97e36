#pragma once

#include "runtime/emit/attention.hpp"
#include "runtime/plan/builder.hpp"

namespace vkattn {

// Whether a device takes index_addresses, for whatever problem.
bool has_index_addresses(const DeviceCaps &caps);

// The same of index_scores_dots.
bool has_index_dots(const DeviceCaps &caps);

// The same of index_scores_coopmat, or of its form for bf16.
bool has_index_matrices(const DeviceCaps &caps, vkattn_type type);

// Where what a choice of keys reads and writes lies.
struct IndexSources {
    AttentionSources attention; // of its queries, its keys and what masks them
    Source weights, indices;
};

// Adds the operator's steps to a plan, as vkattn_index_desc says; fails, naming the member. Whoever reads the indices adds
// a barrier.
void add_index(PlanBuilder &builder, const vkattn_index_desc &desc, const IndexSources &sources);

} // namespace vkattn
