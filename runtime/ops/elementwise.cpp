#include "runtime/ops/elementwise.hpp"

#include "runtime/grid.hpp"
#include "shaders/interface/common.h"

namespace vkattn {

void set_elementwise_grid(const Plan &plan, Step &step, uint64_t items, const vkattn_tensor &tensor, const char *op) {
    step.groups = {tiles(items, ELEMENTWISE_WORKGROUP_SIZE), tiles(tensor.shape[1], 1), tiles(tensor.shape[0], 1)};
    require_fit(step.groups, plan.context().caps(), op);
}

} // namespace vkattn
