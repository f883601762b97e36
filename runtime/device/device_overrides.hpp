#pragma once

#include "runtime/device/device_caps.hpp"

#include <span>

namespace vkattn {

// Sets what is known of a device. Traits take any number of 32 bits; limits and features can only be lowered, so that a
// poorer device can be tried on a richer one. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the trait that is wrong.
void override_caps(DeviceCaps &caps, std::span<const vkattn_trait> traits);

// Adds the matrix shape that traits ask for, before the device's own, which are known. Fails in the same way.
void add_matrix_shape(DeviceCaps &caps);

} // namespace vkattn
