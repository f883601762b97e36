#pragma once

#include "runtime/problem/attention_problem.hpp"
#include "runtime/device/device_caps.hpp"

#include <vector>

namespace vkattn {

// The problem in parts that each can be bound: see is_bindable.
// Split by batch entries, then by KV heads; the problem itself where it fits, or where no split helps (which binding
// then says). Fails with VKATTN_ERROR_UNSUPPORTED where the parts would be too many.
std::vector<AttentionProblem> split_to_bind(const AttentionProblem &problem, const DeviceCaps &caps);

// A packed batch that may mix prefills and decodes: its sequences of many queries, then those of few, where keys of the
// latter alone are split to fill the device. The problem itself where that gains nothing, where a kernel is insisted
// on, and under batch_invariant.
std::vector<AttentionProblem> split_by_queries(const AttentionProblem &problem, const DeviceCaps &caps);

} // namespace vkattn
