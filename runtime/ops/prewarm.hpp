#pragma once

#include "runtime/vulkan/context.hpp"

#include <span>

namespace vkattn {

// Builds what plans of the problems need, on so many threads. Fails with what was wrong with the first of those that
// failed, once all have been tried.
void prewarm(Context &context, std::span<const vkattn_attention_desc> descs, uint32_t threads);

} // namespace vkattn
