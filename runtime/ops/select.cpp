#include "runtime/ops/select.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/problem/tensor.hpp"
#include "vkattn_shaders/table.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint32_t kFewestOfChunk = 8192; // fewer would leave a workgroup with less to read than to count
constexpr uint32_t kChunkOfSelected = 4;  // times what is selected of it

View reserve_words(PlanBuilder &builder, uint64_t rows, uint64_t width) {
    const vkattn_tensor words = contiguous(VKATTN_TYPE_I32, {rows, width});
    return {words, builder.reserve_workspace(extent_bytes(words))};
}

} // namespace

Ranked add_select(PlanBuilder &builder, const View &numbers, Ranked from, uint32_t most, const View &indices,
                  bool keeps_ranks) {
    constexpr double kPasses = 6; // over the numbers
    SelectTensors tensors{.input = numbers, .ranks = from.ranks, .from_indices = from.indices};
    const vkattn_tensor &shape = present(numbers) ? numbers.tensor : from.ranks.tensor;
    const uint64_t rows = present(numbers) ? shape.shape[0] * shape.shape[1] : shape.shape[0];
    gpu::SelectPush push{};
    push.width = static_cast<uint32_t>(shape.shape[shape.rank - 1]);
    push.positions = present(numbers) ? static_cast<uint32_t>(shape.shape[1]) : 1;
    push.chunk = std::max(kFewestOfChunk, kChunkOfSelected * most);
    push.most = most;
    for (;;) {
        const uint32_t chunks = tiles(push.width, push.chunk);
        const bool last = chunks == 1;
        push.last_most = last ? most : std::min(most, push.width - (chunks - 1) * push.chunk);
        push.to_width = (chunks - 1) * most + push.last_most;
        tensors.to_ranks = last && !keeps_ranks ? View{} : reserve_words(builder, rows, push.to_width);
        tensors.indices = last && present(indices) ? indices : reserve_words(builder, rows, push.to_width);
        Step &step = add_step(builder, shaders::select, tensors, {}, push);
        step.groups = {chunks, tiles(rows, 1), 1};
        step.flops = kPasses * kFlopsOfElement * static_cast<double>(rows) * push.width;
        if (last) return {tensors.to_ranks, tensors.indices};
        builder.barrier();
        tensors = {.ranks = tensors.to_ranks, .from_indices = tensors.indices};
        push.width = push.to_width;
    }
}

} // namespace vkattn
