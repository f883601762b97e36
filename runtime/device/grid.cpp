#include "runtime/device/grid.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {

uint32_t tiles(uint64_t size, uint32_t tile) {
    return static_cast<uint32_t>(std::min<uint64_t>(divide_up(size, tile), UINT32_MAX));
}

bool fits(const Grid &grid, const DeviceCaps &caps) {
    for (size_t axis = 0; axis < grid.size(); ++axis)
        if (grid[axis] > caps.max_workgroup_count[axis]) return false;
    return true;
}

void require_fit(const Grid &grid, const DeviceCaps &caps, const char *op) {
    for (size_t axis = 0; axis < grid.size(); ++axis)
        if (grid[axis] > caps.max_workgroup_count[axis])
            fail(VKATTN_ERROR_UNSUPPORTED, op, ": ", grid[axis], " workgroups on axis ", axis, ", expected at most ",
                 caps.max_workgroup_count[axis], " (maxComputeWorkGroupCount of ", caps.name, ")");
}

} // namespace vkattn
