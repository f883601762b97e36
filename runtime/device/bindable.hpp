#pragma once

#include "runtime/device/device_caps.hpp"

namespace vkattn {

// Whether kernels can reach the whole of a tensor: its bytes by one descriptor of the device, its elements by 32 bits. True
// of an absent tensor.
bool is_bindable(const DeviceCaps &caps, const vkattn_tensor &tensor);

// Fails with VKATTN_ERROR_UNSUPPORTED, naming it, where they cannot.
void require_bindable(const DeviceCaps &caps, const vkattn_tensor &tensor, const char *name);

} // namespace vkattn
