#pragma once

#include "runtime/context/device_caps.hpp"

namespace vkattn {

// Fills in which kernels the device can run, and for the others why not: once facts, features in use and traits are
// settled.
void judge_kernels(DeviceCaps &caps);

bool is_supported(const DeviceCaps &caps, vkattn_kernel kernel);

// The largest of the device's matrix products with factors of the type; square: whose m is its k. nullptr: there is
// none.
const vkattn_matrix_shape *largest_matrix_shape(const DeviceCaps &caps, vkattn_type type, bool square);

// Why matrices with factors of the type cannot be used here; "" if they can.
std::string matrix_obstacle(const DeviceCaps &caps, vkattn_type type);

// Whether each invocation of a subgroup may load through a device address of its own.
bool may_diverge(const DeviceCaps &caps);

} // namespace vkattn
