#include "runtime/ops/select.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/problem/tensor.hpp"
#include "shaders/interface/select.h"
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

// One step of selecting.
struct Selection {
    const View &numbers;
    const Ranked &from;
    const Ranked &to;
    uint64_t rows;
};

void add_step(PlanBuilder &builder, const Selection &selection, const gpu::SelectPush &push) {
    gpu::SelectConstants constants;
    constants.INPUT_FORMAT = format_of(selection.numbers.tensor);
    constants.HAS_INDICES = present(selection.from.indices) ? 1 : 0;
    constants.KEEPS_RANKS = present(selection.to.ranks) ? 1 : 0;
    Step &step = builder.add_step(shaders::select, constants, push);
    constexpr double kPasses = 6; // over the numbers
    step.groups = {tiles(push.width, push.chunk), tiles(selection.rows, 1), 1};
    step.flops = kPasses * kFlopsOfElement * static_cast<double>(selection.rows) * push.width;
    bind(builder, step, BINDING_SELECT_INPUT, selection.numbers);
    bind(builder, step, BINDING_SELECT_RANKS, selection.from.ranks);
    bind(builder, step, BINDING_SELECT_INDICES, selection.from.indices);
    bind(builder, step, BINDING_SELECT_TO_RANKS, selection.to.ranks);
    bind(builder, step, BINDING_SELECT_TO_INDICES, selection.to.indices);
}

} // namespace

Ranked add_select(PlanBuilder &builder, const View &numbers, Ranked from, uint32_t most, const View &indices,
                  bool keeps_ranks) {
    View input = numbers;
    const vkattn_tensor &shape = present(numbers) ? numbers.tensor : from.ranks.tensor;
    const uint64_t rows = present(numbers) ? shape.shape[0] * shape.shape[1] : shape.shape[0];
    gpu::SelectPush push{};
    push.width = static_cast<uint32_t>(shape.shape[shape.rank - 1]);
    push.positions = present(numbers) ? static_cast<uint32_t>(shape.shape[1]) : 1;
    push.chunk = std::max(kFewestOfChunk, kChunkOfSelected * most);
    push.most = most;
    if (present(numbers))
        for (uint32_t dim = 0; dim < 2; ++dim) push.input_strides[dim] = static_cast<uint32_t>(shape.strides[dim]);
    for (;;) {
        const uint32_t chunks = tiles(push.width, push.chunk);
        const bool last = chunks == 1;
        push.last_most = last ? most : std::min(most, push.width - (chunks - 1) * push.chunk);
        push.to_width = (chunks - 1) * most + push.last_most;
        const Ranked to{last && !keeps_ranks ? View{} : reserve_words(builder, rows, push.to_width),
                        last && present(indices) ? indices : reserve_words(builder, rows, push.to_width)};
        add_step(builder, {input, from, to, rows}, push);
        if (last) return to;
        builder.barrier();
        from = to;
        input = {};
        push.width = push.to_width;
    }
}

} // namespace vkattn
