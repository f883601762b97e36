#include "runtime/ops/top_k.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/emit/judged.hpp"
#include "runtime/ops/select.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/select.h"
#include "vkattn_shaders/table.hpp"

#include <bit>

namespace vkattn {
namespace {

// How many are selected.
uint64_t checked_k(const vkattn_top_k_desc &desc, uint64_t width) {
    const char *name = present(desc.values) ? "values" : "indices";
    const vkattn_tensor given = present(desc.values) ? desc.values : desc.indices;
    require(present(given), "values, indices: both absent, expected one of them");
    require(given.rank == 3 && given.shape[2] >= 1 && given.shape[2] <= std::min<uint64_t>(width, SELECT_MOST), name,
            ": shape ", shape_text(given), ", expected [B,L,k] with k from 1 to ",
            std::min<uint64_t>(width, SELECT_MOST));
    return given.shape[2];
}

void add_sort(PlanBuilder &builder, const Ranked &selected, const View &values, const View &indices) {
    gpu::SelectPush push{};
    push.width = static_cast<uint32_t>(selected.ranks.tensor.shape[1]);
    const vkattn_tensor &shape = present(values) ? values.tensor : indices.tensor;
    push.positions = static_cast<uint32_t>(shape.shape[1]);
    for (uint32_t dim = 0; dim < 2; ++dim) push.output_strides[dim] = static_cast<uint32_t>(shape.strides[dim]);
    gpu::SelectConstants constants;
    constants.OUTPUT_FORMAT = format_of(values.tensor);
    constants.HAS_INDICES = present(indices) ? 1 : 0;
    constants.SORTED_LEN = std::bit_ceil(std::max(push.width, 2u));
    Step &step = builder.add_step(shaders::sort_selected, constants, push);
    const uint64_t rows = selected.ranks.tensor.shape[0];
    step.groups = {tiles(rows, 1), 1, 1};
    step.flops =
        kFlopsOfElement * static_cast<double>(rows) * constants.SORTED_LEN * std::bit_width(constants.SORTED_LEN);
    bind(builder, step, BINDING_SELECT_RANKS, selected.ranks);
    bind(builder, step, BINDING_SELECT_INDICES, selected.indices);
    bind(builder, step, BINDING_SELECT_OUTPUT, values);
    bind(builder, step, BINDING_SELECT_TO_INDICES, indices);
}

} // namespace

void plan_top_k(PlanBuilder &builder, const vkattn_top_k_desc &desc) {
    const vkattn_tensor given = checked_rank(desc.input, "input", 3);
    const vkattn_tensor input = checked_tokens(given, "input", kAnySize, kAnySize, given.shape[2]);
    const uint64_t k = checked_k(desc, input.shape[2]);
    View values, indices;
    if (present(desc.values)) {
        const vkattn_tensor checked = checked_tokens(desc.values, "values", input.shape[0], input.shape[1], k);
        require_no_overlap(checked, "values");
        values = role_view(checked, VKATTN_ROLE_OUTPUT);
    }
    const vkattn_tensor expected = contiguous(VKATTN_TYPE_I32, {input.shape[0], input.shape[1], k});
    indices = role_view(checked_contiguous(desc.indices, "indices", expected), VKATTN_ROLE_INDICES);
    for (const View &view : {role_view(input, VKATTN_ROLE_INPUT), values, indices}) allow_role(builder, view);
    if (input.shape[0] * input.shape[1] == 0) return;
    for (const Shader *shader : {&shaders::select, &shaders::sort_selected}) require_right(builder, *shader);
    const Ranked selected =
        add_select(builder, role_view(input, VKATTN_ROLE_INPUT), {}, static_cast<uint32_t>(k), {}, true);
    builder.barrier();
    add_sort(builder, selected, values, indices);
}

} // namespace vkattn
