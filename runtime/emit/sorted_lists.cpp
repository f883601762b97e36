#include "runtime/emit/sorted_lists.hpp"

#include "runtime/emit/operator_tensors.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/problem/tensor.hpp"
#include "shaders/interface/sort_lists.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

VKATTN_OPERATOR(SortLists, SORT_LISTS_TENSORS)

View reserve_copy(PlanBuilder &builder, const vkattn_tensor &lists) {
    const vkattn_tensor copy = sorted_lists_of(lists);
    return {copy, builder.reserve_workspace(extent_bytes(copy))};
}

void add_pass(PlanBuilder &builder, const Shader &shader, const gpu::SortListsPush &push, const SortListsTensors &lists,
              uint32_t workgroups) {
    gpu::SortListsConstants constants;
    constants.SORTED_LEN = std::min<uint32_t>(std::bit_ceil(push.len), SORT_LISTS_CHUNK);
    Step &step = add_step(builder, shader, lists, constants, push);
    const auto &shape = lists.from.tensor.shape;
    step.groups = {workgroups, tiles(shape[2], 1), tiles(shape[0] * shape[1], 1)};
    step.flops =
        kFlopsOfElement * static_cast<double>(shape[0] * shape[1] * shape[2]) * push.len * std::bit_width(push.len);
}

gpu::SortListsPush push_of(const vkattn_tensor &from, uint32_t blocks) {
    gpu::SortListsPush push{};
    push.len = static_cast<uint32_t>(from.shape[3]);
    push.heads = static_cast<uint32_t>(from.shape[1]);
    push.positions = static_cast<uint32_t>(from.shape[2]);
    push.blocks = blocks;
    return push;
}

} // namespace

View sort_lists(PlanBuilder &builder, const View &lists, uint32_t blocks) {
    View sorted = reserve_copy(builder, lists.tensor);
    gpu::SortListsPush push = push_of(lists.tensor, blocks);
    add_pass(builder, shaders::sort_lists, push, {lists, sorted}, tiles(push.len, SORT_LISTS_CHUNK));
    if (push.len <= SORT_LISTS_CHUNK) return sorted;
    View other = reserve_copy(builder, lists.tensor);
    for (push.run = SORT_LISTS_CHUNK; push.run < push.len; push.run *= 2) {
        builder.barrier();
        add_pass(builder, shaders::merge_lists, push, {sorted, other}, tiles(push.len, SORT_LISTS_WORKGROUP_SIZE));
        std::swap(sorted, other);
    }
    return sorted;
}

} // namespace vkattn
