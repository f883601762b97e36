#pragma once

#include "runtime/device/device_caps.hpp"

#include <array>
#include <cstdint>

namespace vkattn {

using Grid = std::array<uint32_t, 3>; // workgroups of a dispatch

// Workgroups of so many items each that cover a size, UINT32_MAX at most: no memory holds the items of more.
uint32_t tiles(uint64_t size, uint32_t tile);

// A dispatch that only moves data takes as long as this many operations an element.
constexpr double kFlopsOfElement = 8;

// The largest part of a grid that one dispatch may compute: within the device's workgroup counts and, unless a single
// workgroup has more, within max_dispatch_megaflops. flops: of the whole grid. The last axes are divided first.
Grid grid_of_dispatch(const Grid &grid, double flops, const DeviceCaps &caps);

// Dispatches along each axis. A grid of nothing takes one.
Grid dispatches_along(const Grid &grid, const Grid &grid_of_dispatch);

inline uint64_t workgroup_count(const Grid &grid) { return uint64_t{grid[0]} * grid[1] * grid[2]; }
inline double volume(const Grid &grid) { return double(grid[0]) * grid[1] * grid[2]; }

} // namespace vkattn
