#pragma once

#include "runtime/device/device_caps.hpp"

#include <string>
#include <vector>

namespace vkattn {

// Fills in which kernels the device can run, and for the others why not: once facts, features in use and traits are
// settled.
void judge_kernels(DeviceCaps &caps);

bool is_supported(const DeviceCaps &caps, vkattn_kernel kernel);

// Whether a kernel can multiply in the shape in this place of the device's list, and tests have not ruled that out.
bool is_usable_shape(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type, uint32_t place);

// Their places, the largest first.
std::vector<uint32_t> usable_shapes(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type);

// The first of them. nullptr: there is none.
const vkattn_matrix_shape *largest_matrix_shape(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type);

// Why the kernel cannot use matrices with factors of the type here; "" if it can.
std::string matrix_obstacle(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type);

// Whether each invocation of a subgroup may load through a device address of its own.
bool may_diverge(const DeviceCaps &caps);

} // namespace vkattn
