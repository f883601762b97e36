#include "runtime/device/grid.hpp"

#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {

uint32_t tiles(uint64_t size, uint32_t tile) {
    return static_cast<uint32_t>(std::min<uint64_t>(divide_up(size, tile), UINT32_MAX));
}

namespace {

// The same number of parts, of nearly the same size; 1 of nothing.
uint32_t evened(uint32_t groups, uint32_t most) { return groups == 0 ? 1 : tiles(groups, tiles(groups, most)); }

} // namespace

Grid grid_of_dispatch(const Grid &grid, double flops, const DeviceCaps &caps) {
    Grid part;
    for (size_t axis = 0; axis < grid.size(); ++axis)
        part[axis] = std::clamp(grid[axis], 1u, caps.max_workgroup_count[axis]);
    const double most = caps.traits.max_dispatch_megaflops * 1e6;
    const double flops_of_group = flops / std::max(volume(grid), 1.0);
    for (size_t axis = grid.size(); most > 0 && axis-- > 0;) {
        const double excess = volume(part) * flops_of_group / most;
        if (excess > 1) part[axis] = std::max(static_cast<uint32_t>(part[axis] / excess), 1u);
    }
    for (size_t axis = 0; axis < grid.size(); ++axis) part[axis] = evened(grid[axis], part[axis]);
    return part;
}

Grid dispatches_along(const Grid &grid, const Grid &grid_of_dispatch) {
    Grid count;
    for (size_t axis = 0; axis < grid.size(); ++axis)
        count[axis] = std::max(tiles(grid[axis], grid_of_dispatch[axis]), 1u);
    return count;
}

} // namespace vkattn
