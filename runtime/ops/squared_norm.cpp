#include "runtime/ops/operators.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"
#include "shaders/interface/squared_norm.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>

namespace vkattn {
namespace {

VKATTN_OPERATOR(SquaredNorm, SQUARED_NORM_TENSORS)

// One dispatch: reads elements or parts, writes parts or the sum.
void add_pass(PlanBuilder &builder, SquaredNormTensors tensors, gpu::SquaredNormPush push, bool reads_parts,
              bool writes_parts, bool accumulates) {
    gpu::SquaredNormConstants constants;
    constants.IN_FOURS = rows_start_even(tensors.gradient.tensor);
    constants.READS_PARTS = reads_parts;
    constants.WRITES_PARTS = writes_parts;
    constants.ACCUMULATES = accumulates;
    BindingSet used = binding_set({reads_parts ? BINDING_SQUARED_NORM_PARTS : BINDING_SQUARED_NORM_GRADIENT});
    used |= binding_set({writes_parts ? BINDING_SQUARED_NORM_PARTS : BINDING_SQUARED_NORM_SQUARED_NORM});
    Step &step = add_step(builder, shaders::squared_norm, tensors, constants, push, used);
    step.groups = {writes_parts ? push.parts : 1, 1, 1};
    step.flops = kFlopsOfElement * (reads_parts ? push.parts : push.elements);
}

} // namespace

void plan_squared_norm(PlanBuilder &builder, const vkattn_squared_norm_desc &desc) {
    SquaredNormTensors tensors = SquaredNormTensors::of(desc);
    vkattn_tensor &gradient = tensors.gradient.tensor;
    gradient = checked_elements(gradient, "gradient");
    check_tensors(tensors, {{'S', 1}});
    require(present(tensors.squared_norm), "squared_norm: absent, expected F32 [1]");
    require(desc.accumulate <= 1, "accumulate: ", desc.accumulate, ", expected 0 or 1");
    allow_roles(builder, tensors);
    gpu::SquaredNormPush push{};
    push.scale = finite_or(desc.scale, 1.0f, "scale");
    push.elements = static_cast<uint32_t>(gradient.shape[0]);
    push.parts = tiles(gradient.shape[0], SQUARED_NORM_PART_ELEMENTS);
    const bool accumulates = desc.accumulate != 0;
    if (push.parts == 1) return add_pass(builder, tensors, push, false, false, accumulates);
    tensors.parts.tensor = contiguous(VKATTN_TYPE_F32, {std::max(push.parts, 1u)}); // of nothing the sum is 0
    tensors.parts.source = builder.reserve_workspace(extent_bytes(tensors.parts.tensor));
    add_pass(builder, tensors, push, false, true, false);
    builder.barrier();
    add_pass(builder, tensors, push, true, false, accumulates);
}

} // namespace vkattn
