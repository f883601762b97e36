#include "runtime/ops/select.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/problem/tensor.hpp"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kFewestOfChunk = 8192; // fewer would leave a workgroup with less to read than to count
constexpr uint32_t kChunkOfSelected = 4;  // times what is selected of it

View reserve_words(PlanBuilder &builder, uint64_t rows, uint64_t width) {
    const vkattn_tensor words = contiguous(VKATTN_TYPE_I32, {rows, width});
    return {words, builder.reserve_workspace(extent_bytes(words))};
}

// Of so many numbers. A processor's invocations would keep them in memory.
gpu::SelectConstants select_constants(uint32_t numbers, const DeviceCaps &caps) {
    constexpr uint32_t kMostInvocations = 512, kFewKept = 8, kMostKept = 16;
    gpu::SelectConstants constants{};
    if (caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) return constants;
    const uint32_t most = std::max(std::bit_floor(std::min(caps.max_workgroup_invocations, kMostInvocations)),
                                   uint32_t{SELECT_WORKGROUP_SIZE});
    constants.WORKGROUP_SIZE =
        std::clamp(std::bit_ceil(tiles(numbers, kFewKept)), uint32_t{SELECT_WORKGROUP_SIZE}, most);
    const uint32_t kept = std::bit_ceil(tiles(numbers, constants.WORKGROUP_SIZE));
    constants.KEPT = kept <= kMostKept ? kept : 0;
    return constants;
}

} // namespace

Ranked add_select(PlanBuilder &builder, const View &numbers, Ranked from, uint32_t most, const View &indices,
                  bool keeps_ranks) {
    constexpr double kPasses = 6; // over the numbers: of one row of 4,096 4.6 µs in place of 27.6 on navi31, modelled
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
        Step &step = add_step(builder, shaders::select, tensors,
                              select_constants(std::min(push.width, push.chunk), builder.context().caps()), push);
        step.groups = {chunks, tiles(rows, 1), 1};
        step.flops = kPasses * kFlopsOfElement * static_cast<double>(rows) * push.width;
        if (last) return {tensors.to_ranks, tensors.indices};
        builder.barrier();
        tensors = {.ranks = tensors.to_ranks, .from_indices = tensors.indices};
        push.width = push.to_width;
    }
}

} // namespace vkattn
