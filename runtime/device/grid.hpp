#pragma once

#include "runtime/device/device_caps.hpp"

#include <array>
#include <cstdint>

namespace vkattn {

using Grid = std::array<uint32_t, 3>; // workgroups of a dispatch

// Workgroups of so many items each that cover a size, UINT32_MAX at most: no memory holds the items of more.
uint32_t tiles(uint64_t size, uint32_t tile);

// What moves data takes as long as so many operations an element.
constexpr double kFlopsOfElement = 8;

// What of a grid one dispatch computes at most, where the whole grid takes so many operations: within the device's
// workgroup counts and, as far as single workgroups are, within max_dispatch_megaflops. The last axes are divided first.
Grid grid_of_dispatch(const Grid &grid, double flops, const DeviceCaps &caps);

// Dispatches along each axis. A grid of nothing takes one.
Grid dispatches_along(const Grid &grid, const Grid &grid_of_dispatch);

inline double volume(const Grid &grid) { return double(grid[0]) * grid[1] * grid[2]; }

} // namespace vkattn
