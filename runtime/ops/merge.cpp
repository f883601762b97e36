#include "runtime/ops/merge.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/merge.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// A caller's description, checked; layouts normalised.
struct Merge {
    uint32_t parts;
    vkattn_tensor partial_output, partial_log_sum_exp, output, log_sum_exp;
    uint64_t partial_output_stride, partial_log_sum_exp_stride;
    bool accumulates;
};

vkattn_tensor checked_output(const vkattn_tensor &given, const char *name) {
    const vkattn_tensor tensor = checked_rank(given, name, 4);
    require_float(tensor, name);
    return tensor;
}

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
View region_of(const vkattn_tensor &tensor, uint64_t stride, uint32_t parts, vkattn_role role) {
    const uint64_t elements = span_elements(tensor) + stride * (parts - 1);
    View view = role_view(contiguous(tensor.type, {elements}), role);
    view.tensor.offset = tensor.offset;
    return view;
}

void copy_strides(const vkattn_tensor &tensor, uint32_t (&strides)[4]) {
    for (uint32_t dim = 0; dim < tensor.rank; ++dim) strides[dim] = static_cast<uint32_t>(tensor.strides[dim]);
}

gpu::MergePush push_of(const Merge &merge) {
    gpu::MergePush push{};
    copy_strides(merge.partial_output, push.partial_strides);
    copy_strides(merge.partial_log_sum_exp, push.partial_sums_strides);
    push.partial_sums_strides[3] = static_cast<uint32_t>(merge.partial_log_sum_exp_stride);
    copy_strides(merge.output, push.output_strides);
    push.part_stride = static_cast<uint32_t>(merge.partial_output_stride);
    push.parts = merge.parts;
    push.dims = static_cast<uint32_t>(merge.output.shape[3]);
    push.heads = static_cast<uint32_t>(merge.output.shape[1]);
    push.rows = static_cast<uint32_t>(merge.output.shape[2]);
    return push;
}

// Some drivers bound the iterations of a shader's loops: the sets are looked through twice, and once more for each pair of
// dims that an invocation joins.
void require_loops(const DeviceCaps &caps, const Merge &merge) {
    const uint64_t pairs = divide_up(merge.output.shape[3], uint64_t{2 * MERGE_WORKGROUP_SIZE});
    const uint64_t most =
        (caps.max_loop_iterations - std::min<uint64_t>(caps.max_loop_iterations, pairs)) / (2 + pairs);
    if (caps.max_loop_iterations != 0 && merge.parts > most)
        fail(VKATTN_ERROR_UNSUPPORTED, "part_count: ", merge.parts, ", expected at most ", most, " ",
             on_bounded_loops(caps));
}

Merge checked(const vkattn_merge_desc &desc) {
    Merge merge{desc.part_count,
                checked_output(desc.partial_output, "partial_output"),
                checked_rank(desc.partial_log_sum_exp, "partial_log_sum_exp", 3),
                checked_output(desc.output, "output"),
                normalised(desc.log_sum_exp, "log_sum_exp"),
                desc.partial_output_stride,
                desc.partial_log_sum_exp_stride,
                desc.accumulate != 0};
    const vkattn_tensor &output = merge.output;
    require(merge.parts >= 1, "part_count: 0, expected at least 1");
    require_stride(merge.partial_output_stride, "partial_output_stride", merge.parts);
    require_stride(merge.partial_log_sum_exp_stride, "partial_log_sum_exp_stride", merge.parts);
    require(output.shape[3] >= 1, "output: head size 0, expected at least 1");
    require(std::equal(output.shape, output.shape + 4, merge.partial_output.shape), "partial_output: shape ",
            shape_text(merge.partial_output), ", expected that of output, ", shape_text(output));
    require_no_overlap(output, "output");
    require_rows(merge.partial_log_sum_exp, "partial_log_sum_exp", output);
    require(present(merge.log_sum_exp) || !merge.accumulates, "log_sum_exp: absent, expected it with accumulate");
    if (!present(merge.log_sum_exp)) return merge;
    require(merge.log_sum_exp.rank == 3, "log_sum_exp: rank ", merge.log_sum_exp.rank, ", expected 3");
    require_rows(merge.log_sum_exp, "log_sum_exp", output);
    require(is_contiguous(merge.log_sum_exp),
            "log_sum_exp: strides are not those of a contiguous tensor, expected them to be");
    return merge;
}

} // namespace

void plan_merge(PlanBuilder &builder, const vkattn_merge_desc &desc) {
    const Merge merge = checked(desc);
    if (is_empty(merge.output)) {
        const auto allow = [&](const vkattn_tensor &tensor, vkattn_role role) {
            allow_role(builder, role_view(tensor, role));
        };
        allow(merge.partial_output, VKATTN_ROLE_PARTIAL_OUTPUT);
        allow(merge.partial_log_sum_exp, VKATTN_ROLE_PARTIAL_LOG_SUM_EXP);
        allow(merge.output, VKATTN_ROLE_OUTPUT);
        allow(merge.log_sum_exp, VKATTN_ROLE_LOG_SUM_EXP);
        return;
    }
    require_loops(builder.context().caps(), merge);
    gpu::MergeConstants constants;
    constants.PARTIAL_FORMAT = format_of(merge.partial_output);
    constants.OUTPUT_FORMAT = format_of(merge.output);
    constants.OUTPUT_PAIRS = in_pairs(merge.output);
    constants.ACCUMULATES = merge.accumulates;
    constants.HAS_LOG_SUM_EXP = present(merge.log_sum_exp);
    Step &step = builder.add_step(shaders::merge, constants, push_of(merge));
    for (uint32_t axis = 0; axis < 3; ++axis) step.groups[axis] = tiles(merge.output.shape[2 - axis], 1);
    step.flops = kFlopsOfElement * merge.parts * static_cast<double>(extent_elements(merge.output));
    bind(builder, step, BINDING_MERGE_PARTIAL_OUTPUT,
         region_of(merge.partial_output, merge.partial_output_stride, merge.parts, VKATTN_ROLE_PARTIAL_OUTPUT));
    bind(builder, step, BINDING_MERGE_PARTIAL_LOG_SUM_EXP,
         region_of(merge.partial_log_sum_exp, merge.partial_log_sum_exp_stride, merge.parts,
                   VKATTN_ROLE_PARTIAL_LOG_SUM_EXP));
    bind(builder, step, BINDING_MERGE_OUTPUT, role_view(merge.output, VKATTN_ROLE_OUTPUT));
    bind(builder, step, BINDING_MERGE_LOG_SUM_EXP, role_view(merge.log_sum_exp, VKATTN_ROLE_LOG_SUM_EXP));
}

} // namespace vkattn
