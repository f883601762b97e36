#pragma once

#include "runtime/vulkan/context.hpp"

#include <memory>

namespace vkattn {

// A context that starts from what an earlier one saved, as far as it is of the same device, and tests kernels before
// their first use where the device's traits say so.
std::unique_ptr<Context> ready_context(const vkattn_context_info &info);

} // namespace vkattn
