#pragma once

#include "runtime/device/device_caps.hpp"

#include <array>
#include <cstdint>

namespace vkattn {

using Grid = std::array<uint32_t, 3>; // workgroups of a dispatch

// Workgroups of so many items each that cover a size, UINT32_MAX at most: no memory holds the items of more.
uint32_t tiles(uint64_t size, uint32_t tile);

bool fits(const Grid &grid, const DeviceCaps &caps);

// Fails with VKATTN_ERROR_UNSUPPORTED, naming the operator, where the device's workgroup counts are too small.
void require_fit(const Grid &grid, const DeviceCaps &caps, const char *op);

} // namespace vkattn
