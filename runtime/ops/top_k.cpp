#include "runtime/ops/operators.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/ops/select.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
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

void add_sort(PlanBuilder &builder, const SelectTensors &tensors) {
    const vkattn_tensor &ranks = tensors.ranks.tensor;
    const vkattn_tensor &shape = present(tensors.values) ? tensors.values.tensor : tensors.indices.tensor;
    gpu::SelectPush push{};
    push.width = static_cast<uint32_t>(ranks.shape[1]);
    push.positions = static_cast<uint32_t>(shape.shape[1]);
    copy_strides(shape, push.output_strides);
    gpu::SelectConstants constants;
    constants.SORTED_LEN = std::bit_ceil(std::max(push.width, 2u));
    Step &step = add_step(builder, shaders::sort_selected, tensors, constants, push);
    step.groups = {tiles(ranks.shape[0], 1), 1, 1};
    step.flops = kFlopsOfElement * static_cast<double>(ranks.shape[0]) * constants.SORTED_LEN *
                 std::bit_width(constants.SORTED_LEN);
}

} // namespace

void plan_top_k(PlanBuilder &builder, const vkattn_top_k_desc &desc) {
    SelectTensors tensors = SelectTensors::of(desc);
    const uint64_t k = checked_k(desc, checked_rank(desc.input, "input", 3).shape[2]);
    check_tensors(tensors, {{'K', k}});
    const vkattn_tensor &input = tensors.input.tensor;
    allow_roles(builder, tensors);
    if (input.shape[0] * input.shape[1] == 0) return;
    const Ranked selected = add_select(builder, tensors.input, {}, static_cast<uint32_t>(k), {}, true);
    builder.barrier();
    add_sort(builder, {.ranks = selected.ranks,
                       .from_indices = selected.indices,
                       .indices = tensors.indices,
                       .values = tensors.values});
}

} // namespace vkattn
