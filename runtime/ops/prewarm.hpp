#pragma once

#include "runtime/plan/builder.hpp"

#include <functional>

namespace vkattn {

// Builds what plans need that build(builder, i) makes, of descriptions 0 to count - 1, on so many threads. Fails with what was wrong
// with the first of those that failed, once all have been tried.
void prewarm(Context &context, size_t count, const std::function<void(PlanBuilder &, size_t)> &build, uint32_t threads);

} // namespace vkattn
