#pragma once

#include "runtime/device/device_caps.hpp"

namespace vkattn {

// Whether CPU drivers' kernel of linear attention may be used.
bool has_linear_attention_uniform(const DeviceCaps &caps);

} // namespace vkattn
