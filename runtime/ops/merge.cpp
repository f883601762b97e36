#include "runtime/ops/operators.hpp"

#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/merge.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>

namespace vkattn {
namespace {

VKATTN_OPERATOR(Merge, MERGE_TENSORS)

void require_rows(const vkattn_tensor &sums, const char *name, const vkattn_tensor &output) {
    const bool same = std::equal(sums.shape, sums.shape + 3, output.shape);
    require(sums.type == VKATTN_TYPE_F32 && same, name, ": type ", type_name(sums.type), ", shape ", shape_text(sums),
            ", expected F32 and the first three sizes of output, ", shape_text(output));
}

// The parts' regions are counted in 64 bits, which must not wrap.
void require_stride(uint64_t stride, const char *name, uint32_t parts) {
    require(stride <= kMostElements / parts, name, ": ", stride, " with ", parts,
            " parts, expected at most 2^32 elements in all");
}

// The whole of what lies in a region, as plain elements.
View region_of(const View &of_part, uint64_t stride, uint32_t parts) {
    const vkattn_tensor &tensor = of_part.tensor;
    const uint64_t elements = span_elements(tensor) + stride * (parts - 1);
    View view{contiguous(tensor.type, {elements}), of_part.source};
    view.tensor.offset = tensor.offset;
    return view;
}

gpu::MergePush push_of(const vkattn_merge_desc &desc, const vkattn_tensor &output) {
    gpu::MergePush push{};
    push.log_sum_exp_part_stride = static_cast<uint32_t>(desc.partial_log_sum_exp_stride);
    push.output_part_stride = static_cast<uint32_t>(desc.partial_output_stride);
    push.parts = desc.part_count;
    push.dims = static_cast<uint32_t>(output.shape[3]);
    push.heads = static_cast<uint32_t>(output.shape[1]);
    push.rows = static_cast<uint32_t>(output.shape[2]);
    return push;
}

// Some drivers bound the iterations of a shader's loops: the sets are looked through twice, and once more for each pair of
// dims that an invocation joins.
void require_loops(const DeviceCaps &caps, uint32_t parts, uint64_t dims) {
    const uint64_t pairs = divide_up(dims, uint64_t{2 * MERGE_WORKGROUP_SIZE});
    const uint64_t most =
        (caps.max_loop_iterations - std::min<uint64_t>(caps.max_loop_iterations, pairs)) / (2 + pairs);
    if (caps.max_loop_iterations != 0 && parts > most)
        fail(VKATTN_ERROR_UNSUPPORTED, "part_count: ", parts, ", expected at most ", most, " ", on_bounded_loops(caps));
}

MergeTensors checked(const vkattn_merge_desc &desc) {
    MergeTensors tensors = MergeTensors::of(desc);
    vkattn_tensor &partial_output = tensors.partial_output.tensor;
    vkattn_tensor &partial_sums = tensors.partial_log_sum_exp.tensor, &sums = tensors.log_sum_exp.tensor;
    const vkattn_tensor &output = tensors.output.tensor;
    partial_output = checked_rank(partial_output, "partial_output", 4);
    require_float(partial_output, "partial_output");
    partial_sums = checked_rank(partial_sums, "partial_log_sum_exp", 3);
    check_tensors(tensors);
    sums = normalised(sums, "log_sum_exp");
    require(desc.part_count >= 1, "part_count: 0, expected at least 1");
    require_stride(desc.partial_output_stride, "partial_output_stride", desc.part_count);
    require_stride(desc.partial_log_sum_exp_stride, "partial_log_sum_exp_stride", desc.part_count);
    require(output.shape[3] >= 1, "output: head size 0, expected at least 1");
    require(std::equal(output.shape, output.shape + 4, partial_output.shape), "partial_output: shape ",
            shape_text(partial_output), ", expected that of output, ", shape_text(output));
    require_rows(partial_sums, "partial_log_sum_exp", output);
    require(present(sums) || desc.accumulate == 0, "log_sum_exp: absent, expected it with accumulate");
    if (!present(sums)) return tensors;
    require(sums.rank == 3, "log_sum_exp: rank ", sums.rank, ", expected 3");
    require_rows(sums, "log_sum_exp", output);
    require(is_contiguous(sums), "log_sum_exp: strides are not those of a contiguous tensor, expected them to be");
    return tensors;
}

} // namespace

void plan_merge(PlanBuilder &builder, const vkattn_merge_desc &desc) {
    const MergeTensors tensors = checked(desc);
    const vkattn_tensor &output = tensors.output.tensor;
    if (is_empty(output)) return allow_roles(builder, tensors);
    require_loops(builder.context().caps(), desc.part_count, output.shape[3]);
    gpu::MergeConstants constants;
    constants.ACCUMULATES = desc.accumulate != 0;
    Step &step = add_step(builder, shaders::merge, tensors, constants, push_of(desc, output));
    bind(builder, step, BINDING_MERGE_PARTIAL_OUTPUT,
         region_of(tensors.partial_output, desc.partial_output_stride, desc.part_count));
    bind(builder, step, BINDING_MERGE_PARTIAL_LOG_SUM_EXP,
         region_of(tensors.partial_log_sum_exp, desc.partial_log_sum_exp_stride, desc.part_count));
    for (uint32_t axis = 0; axis < 3; ++axis) step.groups[axis] = tiles(output.shape[2 - axis], 1);
    step.flops = kFlopsOfElement * desc.part_count * static_cast<double>(extent_elements(output));
}

} // namespace vkattn
