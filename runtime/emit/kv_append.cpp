#include "runtime/emit/kv_append.hpp"

#include "runtime/emit/elementwise.hpp"
#include "runtime/problem/rotation.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/kv_append.h"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

// Of batch, head and position; 0 where scales are shared.
void copy_strides(const View &scales, gpu::uint (&strides)[3]) {
    for (uint32_t dim = 0; dim < 3; ++dim)
        strides[dim] = scales.tensor.shape[dim] <= 1 ? 0 : static_cast<uint32_t>(scales.tensor.strides[dim]);
}

gpu::AppendPush push_of(const RowsToAppend &rows) {
    const vkattn_tensor &from = rows.source.tensor, &to = rows.cache.tensor;
    gpu::AppendPush push{};
    for (uint32_t dim = 0; dim < 4; ++dim) {
        push.source_strides[dim] = static_cast<uint32_t>(from.strides[dim]);
        push.cache_strides[dim] = static_cast<uint32_t>(to.strides[dim]);
    }
    copy_strides(rows.source_scales, push.source_scale_strides);
    copy_strides(rows.cache_scales, push.cache_scale_strides);
    push.positions = rows.positions != 0 ? rows.positions : static_cast<uint32_t>(from.shape[2]);
    push.capacity = static_cast<uint32_t>(to.shape[2]);
    push.offset = rows.offset;
    push.first = rows.first;
    push.source_total = static_cast<uint32_t>(from.shape[2]);
    push.beyond = rows.beyond;
    push.epsilon = rows.norm.epsilon;
    if (rows.hadamard) push.scale = hadamard_scale(hadamard_block(from.shape[3]));
    if (present(rows.cu_seqlens)) push.sequences = static_cast<uint32_t>(rows.cu_seqlens.tensor.shape[0] - 1);
    if (!present(rows.block_table)) return push;
    push.pool_pages = static_cast<uint32_t>((rows.gathers ? from : to).shape[0]);
    push.table_pages = static_cast<uint32_t>(rows.block_table.tensor.shape[1]);
    if (!rows.gathers) push.capacity *= push.table_pages;
    return push;
}

gpu::AppendConstants constants_of(const RowsToAppend &rows) {
    gpu::AppendConstants constants;
    constants.SOURCE_FORMAT = format_of(rows.source.tensor);
    constants.CACHE_FORMAT = format_of(rows.cache.tensor);
    constants.CACHE_PAIRS = in_pairs(rows.cache.tensor);
    constants.HEAD_DIM = static_cast<uint32_t>(rows.source.tensor.shape[3]);
    constants.IN_BLOCKS = constants.HEAD_DIM % 4 == 0 && in_pairs(rows.cache.tensor) && in_pairs(rows.source.tensor);
    constants.HAS_PAST_LENGTHS = present(rows.past_lengths);
    constants.HAS_LENGTHS = present(rows.lengths);
    constants.NORM_FORMAT = format_of(rows.norm.weight.tensor);
    if (present(rows.rotation.frequencies))
        constants.ROTATED = rows.rotation.interleaved ? ROTATED_INTERLEAVED : ROTATED_HALVES;
    const uint32_t block = hadamard_block(constants.HEAD_DIM);
    if (rows.hadamard && block > 1) constants.HADAMARD = block;
    constants.SOURCE_SCALED = present(rows.source_scales);
    if (present(rows.cache_scales)) constants.CACHE_SCALES = rows.makes_scales ? CACHE_SCALES_MADE : CACHE_SCALES_READ;
    if (present(rows.cu_seqlens)) constants.PACKED = rows.gathers ? PACKED_AND_BEYOND : PACKED_SEQUENCES;
    if (!present(rows.block_table)) return constants;
    constants.PAGED = rows.gathers ? PAGED_SOURCE : PAGED_CACHE;
    constants.PAGE_SIZE = static_cast<uint32_t>((rows.gathers ? rows.source : rows.cache).tensor.shape[2]);
    return constants;
}

} // namespace

void add_kv_append(PlanBuilder &builder, const RowsToAppend &rows) {
    for (const View *view :
         {&rows.source, &rows.cache, &rows.past_lengths, &rows.cu_seqlens, &rows.block_table, &rows.cache_scales})
        allow_role(builder, *view);
    const bool no_sequences = present(rows.cu_seqlens) && rows.cu_seqlens.tensor.shape[0] == 1;
    if (no_sequences || is_empty(rows.source.tensor) || is_empty(rows.cache.tensor)) return;
    if (present(rows.block_table) && is_empty(rows.block_table.tensor)) return;
    const gpu::AppendPush push = push_of(rows);
    const gpu::AppendConstants constants = constants_of(rows);
    const bool quantised = is_quantised(rows.cache.tensor.type);
    const uint64_t elements = quantised ? QUANTISED_BLOCK : constants.IN_BLOCKS != 0 ? 4 : 2; // of an invocation
    Step &step = builder.add_step(quantised ? shaders::kv_append_quantised : shaders::kv_append, constants, push);
    vkattn_tensor grid = rows.source.tensor;
    if (rows.gathers) grid.shape[0] = rows.batch;
    const uint64_t tokens = constants.PACKED == PACKED_SEQUENCES ? push.source_total : push.positions;
    set_elementwise_grid(step, tokens * divide_up(constants.HEAD_DIM, elements), elements, grid);
    bind(builder, step, BINDING_APPEND_SOURCE, rows.source);
    bind(builder, step, BINDING_APPEND_CACHE, rows.cache);
    bind(builder, step, BINDING_APPEND_PAST_LENGTHS, rows.past_lengths);
    bind(builder, step, BINDING_APPEND_CU_SEQLENS, rows.cu_seqlens);
    bind(builder, step, BINDING_APPEND_BLOCK_TABLE, rows.block_table);
    bind(builder, step, BINDING_APPEND_LENGTHS, rows.lengths);
    bind(builder, step, BINDING_APPEND_FREQUENCIES, rows.rotation.frequencies);
    bind(builder, step, BINDING_APPEND_SOURCE_SCALES, rows.source_scales);
    bind(builder, step, BINDING_APPEND_CACHE_SCALES, rows.cache_scales);
    bind(builder, step, BINDING_APPEND_NORM, rows.norm.weight);
}

} // namespace vkattn
