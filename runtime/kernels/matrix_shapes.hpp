#pragma once

#include "runtime/device/device_caps.hpp"

#include <string>
#include <vector>

namespace vkattn {

// What the device lacks for cooperative matrices; "": nothing.
const char *obstacle_of_matrices(const DeviceCaps &caps);

// Whether a kernel can multiply in the shape at this index of the device's list, and tests have not ruled that out.
bool is_usable_shape(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type, uint32_t index);

// Their indices, the largest first.
std::vector<uint32_t> usable_shapes(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type);

// The first of them. nullptr: there is none.
const vkattn_matrix_shape *largest_matrix_shape(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type);

// Why the kernel cannot use matrices with factors of the type here; "" if it can.
std::string matrix_obstacle(const DeviceCaps &caps, vkattn_kernel kernel, vkattn_type type);

} // namespace vkattn
