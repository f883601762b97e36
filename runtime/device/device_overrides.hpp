#pragma once

#include "runtime/device/device_caps.hpp"

#include <string_view>

namespace vkattn {

// Sets what is known of a device by name: "scalar_address_loads=0,max_storage_buffer_range=134217728". Traits take any
// number; limits and features can only be lowered, so that a poorer device can be tried on a richer one. Fails with
// VKATTN_ERROR_INVALID_ARGUMENT, naming the part that is wrong and where the text came from.
void override_caps(DeviceCaps &caps, std::string_view text, const char *source);

} // namespace vkattn
