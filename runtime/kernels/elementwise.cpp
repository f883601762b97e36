#include "runtime/kernels/elementwise.hpp"

#include "runtime/device/grid.hpp"
#include "shaders/interface/common.h"

namespace vkattn {

void set_elementwise_grid(const PlanBuilder &builder, Step &step, uint64_t items, const vkattn_tensor &tensor,
                          const char *op) {
    step.groups = {tiles(items, ELEMENTWISE_WORKGROUP_SIZE), tiles(tensor.shape[1], 1), tiles(tensor.shape[0], 1)};
    require_fit(step.groups, builder.context().caps(), op);
}

} // namespace vkattn
