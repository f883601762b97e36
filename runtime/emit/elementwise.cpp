#include "runtime/emit/elementwise.hpp"

#include "runtime/device/grid.hpp"
#include "shaders/interface/common.h"

namespace vkattn {

void set_elementwise_grid(Step &step, uint64_t items, uint64_t elements_of_item, const vkattn_tensor &tensor) {
    step.groups = {tiles(items, ELEMENTWISE_WORKGROUP_SIZE), tiles(tensor.shape[1], 1), tiles(tensor.shape[0], 1)};
    step.flops = kFlopsOfElement * static_cast<double>(items * elements_of_item) *
                 static_cast<double>(tensor.shape[0] * tensor.shape[1]);
}

} // namespace vkattn
