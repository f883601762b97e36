#include "runtime/ops/elementwise.hpp"

#include "runtime/error.hpp"

namespace vkattn {

void set_elementwise_grid(const Plan &plan, Step &step, uint64_t items, const vkattn_tensor &tensor, const char *op) {
    const uint64_t groups[3] = {(items + ELEMENTWISE_WORKGROUP_SIZE - 1) / ELEMENTWISE_WORKGROUP_SIZE, tensor.shape[1],
                                tensor.shape[0]};
    const DeviceCaps &caps = plan.context().caps();
    for (size_t axis = 0; axis < 3; ++axis) {
        if (groups[axis] > caps.max_workgroup_count[axis])
            fail(VKATTN_ERROR_UNSUPPORTED, op, ": ", groups[axis], " workgroups on axis ", axis, ", expected at most ",
                 caps.max_workgroup_count[axis], " (maxComputeWorkGroupCount of ", caps.name, ")");
        step.groups[axis] = static_cast<uint32_t>(groups[axis]);
    }
}

} // namespace vkattn
