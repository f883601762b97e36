#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/problem/attention_problem.hpp"

#include <vector>

namespace vkattn {

// The problem in parts that each can be bound: see is_bindable.
// Split by batch entries, then by KV heads; the problem itself where it fits, or where no split helps (which binding
// then says). Fails with VKATTN_ERROR_UNSUPPORTED where the parts would be too many.
std::vector<AttentionProblem> split_to_bind(const AttentionProblem &problem, const DeviceCaps &caps);

// The sequences of few queries in a packed batch that may mix prefills and decodes: those of one, and of those that have no more
// queries than these, those of a few. Nothing where the batch cannot mix them, and where a kernel is requested.
std::vector<AttentionProblem> decodes_of(const AttentionProblem &problem);

} // namespace vkattn
