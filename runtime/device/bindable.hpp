#pragma once

#include "runtime/device/device_caps.hpp"

namespace vkattn {

// Whether kernels can reach the whole of a tensor: its bytes by one descriptor of the device, its elements by 32 bits. True
// of an absent tensor.
bool is_bindable(const DeviceCaps &caps, const vkattn_tensor &tensor);

// Indices of the first dimension that kernels can reach at a time: all where they can reach the whole tensor, or where no part
// would do. Parts of 64 and more are about equal, and multiples of it.
uint64_t rows_that_fit(const DeviceCaps &caps, const vkattn_tensor &tensor);

// Fails with VKATTN_ERROR_UNSUPPORTED, naming it, where they cannot.
void require_bindable(const DeviceCaps &caps, const vkattn_tensor &tensor, const char *name);

} // namespace vkattn
