#pragma once

#include "runtime/vulkan/context.hpp"

#include <functional>

namespace vkattn {

// Records a command buffer of its own, submits it on the context's queue and waits for it.
void submit_and_wait(Context &context, const std::function<void(VkCommandBuffer)> &record);

// The same, and returns the milliseconds between timestamps around what was recorded; negative without timestamps.
double submit_and_time(Context &context, const std::function<void(VkCommandBuffer)> &record);

} // namespace vkattn
