#include "runtime/ops/operators.hpp"

#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/argmax.h"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

VKATTN_OPERATOR(Argmax, ARGMAX_TENSORS)

// One dispatch: reads elements or parts of each row, writes parts or tokens.
void add_pass(PlanBuilder &builder, ArgmaxTensors tensors, uint32_t parts, bool reads_parts, bool writes_parts) {
    const vkattn_tensor &input = tensors.input.tensor;
    if (writes_parts) tensors.values = {};
    gpu::ArgmaxConstants constants;
    constants.READS_PARTS = reads_parts;
    constants.WRITES_PARTS = writes_parts;
    gpu::ArgmaxPush push{};
    push.features = static_cast<uint32_t>(input.shape[2]);
    push.parts = parts;
    push.rows = static_cast<uint32_t>(input.shape[1]);
    BindingSet unused = writes_parts ? binding_set({BINDING_ARGMAX_TOKENS}) : 0;
    if (reads_parts && !present(tensors.values)) unused |= binding_set({BINDING_ARGMAX_INPUT});
    Step &step = add_step(builder, shaders::argmax, tensors, constants, push, ~unused);
    step.groups = {writes_parts ? parts : 1, tiles(input.shape[1], 1), tiles(input.shape[0], 1)};
    const double elements = reads_parts ? parts : static_cast<double>(input.shape[2]);
    step.flops = kFlopsOfElement * elements * static_cast<double>(input.shape[0] * input.shape[1]);
}

} // namespace

void plan_argmax(PlanBuilder &builder, const vkattn_argmax_desc &desc) {
    ArgmaxTensors tensors = ArgmaxTensors::of(desc);
    const vkattn_tensor &input = tensors.input.tensor;
    require(present(input) && input.rank == 3 && input.shape[2] >= 1, "input: shape ", shape_text(input),
            ", expected [B,L,N] with N at least 1");
    check_tensors(tensors);
    require(present(tensors.tokens), "tokens: absent, expected I32 [", input.shape[0], ",", input.shape[1], "]");
    const uint32_t parts = tiles(input.shape[2], ARGMAX_PART_ELEMENTS);
    if (parts == 1) return add_pass(builder, tensors, 1, false, false);
    tensors.parts.tensor = contiguous(VKATTN_TYPE_I32, {input.shape[0], input.shape[1], parts, 2});
    tensors.parts.source = builder.reserve_workspace(extent_bytes(tensors.parts.tensor));
    add_pass(builder, tensors, parts, false, true);
    builder.barrier();
    add_pass(builder, tensors, parts, true, false);
}

} // namespace vkattn
