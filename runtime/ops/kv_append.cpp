#include "runtime/ops/kv_append.hpp"

#include "runtime/error.hpp"
#include "runtime/ops/elementwise.hpp"
#include "runtime/rounding.hpp"
#include "runtime/sequences.hpp"
#include "runtime/tensor.hpp"
#include "runtime/tensor_checks.hpp"
#include "shaders/interface/kv_append.h"

namespace vkattn {
namespace {

// A caller's description, checked; layouts normalised.
struct KvAppend {
    vkattn_tensor source, cache, past_lengths, cu_seqlens, block_table;
    uint32_t offset;
    uint32_t batch;     // sequences
    uint32_t positions; // tokens of a sequence, at most
};

void check_sequences(const vkattn_kv_append_desc &desc, KvAppend &append) {
    const vkattn_tensor &source = append.source;
    append.batch = static_cast<uint32_t>(source.shape[0]);
    append.positions = static_cast<uint32_t>(source.shape[2]);
    append.cu_seqlens = checked_cu_seqlens(desc.cu_seqlens, "cu_seqlens", source, "source");
    if (!present(append.cu_seqlens)) return;
    append.batch = sequences_of(append.cu_seqlens);
    append.positions = longest_sequence(desc.max_seqlen, "max_seqlen", source);
}

uint64_t capacity_of(const KvAppend &append) {
    return present(append.block_table) ? positions_of(append.block_table, append.cache) : append.cache.shape[2];
}

void check_room(const KvAppend &append) {
    const vkattn_tensor &source = append.source, &cache = append.cache;
    const bool paged = present(append.block_table);
    const bool same = (paged || append.batch == cache.shape[0]) && source.shape[1] == cache.shape[1] &&
                      source.shape[3] == cache.shape[3];
    require(same, "cache: shape ", shape_text(cache), ", expected ", append.batch, " sequences, ", source.shape[1],
            " heads and head size ", source.shape[3], " as in source");
    require(present(append.past_lengths) || uint64_t{append.offset} + append.positions <= capacity_of(append),
            "offset: ", append.offset, " with ", append.positions, " rows, expected at most the capacity of cache, ",
            capacity_of(append));
    require_no_overlap(cache, "cache");
}

KvAppend checked(const vkattn_kv_append_desc &desc) {
    KvAppend append{};
    append.source = checked_rank(desc.source, "source", 4);
    append.cache = checked_rank(desc.cache, "cache", 4);
    append.offset = desc.offset;
    require_float(append.source, "source");
    require_float_or_quantised(append.cache, "cache");
    check_sequences(desc, append);
    append.past_lengths =
        checked_contiguous(desc.past_lengths, "past_lengths", contiguous(VKATTN_TYPE_I32, {append.batch}));
    append.block_table = checked_block_table(desc.block_table, append.batch, append.cache, "cache");
    check_room(append);
    return append;
}

gpu::AppendPush push_of(const RowsToAppend &rows) {
    const vkattn_tensor &from = rows.source.tensor, &to = rows.cache.tensor;
    gpu::AppendPush push{};
    for (uint32_t dim = 0; dim < 4; ++dim) {
        push.source_strides[dim] = static_cast<uint32_t>(from.strides[dim]);
        push.cache_strides[dim] = static_cast<uint32_t>(to.strides[dim]);
    }
    push.positions = rows.positions != 0 ? rows.positions : static_cast<uint32_t>(from.shape[2]);
    push.capacity = static_cast<uint32_t>(to.shape[2]);
    push.offset = rows.offset;
    push.first = rows.first;
    push.source_total = static_cast<uint32_t>(from.shape[2]);
    push.beyond = rows.beyond;
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
    if (present(rows.cu_seqlens)) constants.PACKED = rows.gathers ? PACKED_AND_BEYOND : PACKED_SEQUENCES;
    if (!present(rows.block_table)) return constants;
    constants.PAGED = rows.gathers ? PAGED_SOURCE : PAGED_CACHE;
    constants.PAGE_SIZE = static_cast<uint32_t>((rows.gathers ? rows.source : rows.cache).tensor.shape[2]);
    return constants;
}

} // namespace

void add_kv_append(Plan &plan, const RowsToAppend &rows) {
    const gpu::AppendPush push = push_of(rows);
    const gpu::AppendConstants constants = constants_of(rows);
    const uint64_t elements = // of an invocation
        is_quantised(rows.cache.tensor.type) ? QUANTISED_BLOCK
        : constants.IN_BLOCKS != 0           ? 4
                                             : 2;
    Step &step = plan.add_step(plan.pipeline(Module::kKvAppend, constants), push);
    vkattn_tensor grid = rows.source.tensor;
    if (rows.batch != 0) grid.shape[0] = rows.batch;
    set_elementwise_grid(plan, step, uint64_t{push.positions} * divide_up(constants.HEAD_DIM, elements), grid,
                         "kv_append");
    bind(plan, step, BINDING_APPEND_SOURCE, rows.source);
    bind(plan, step, BINDING_APPEND_CACHE, rows.cache);
    bind(plan, step, BINDING_APPEND_PAST_LENGTHS, rows.past_lengths);
    bind(plan, step, BINDING_APPEND_CU_SEQLENS, rows.cu_seqlens);
    bind(plan, step, BINDING_APPEND_BLOCK_TABLE, rows.block_table);
    bind(plan, step, BINDING_APPEND_LENGTHS, rows.lengths);
    step.written_binding = BINDING_APPEND_CACHE;
}

void plan_kv_append(Plan &plan, const vkattn_kv_append_desc &desc) {
    const KvAppend append = checked(desc);
    add_kv_append(plan, {.source = role_view(append.source, VKATTN_ROLE_KEY),
                         .cache = role_view(append.cache, VKATTN_ROLE_PRESENT_KEY),
                         .offset = append.offset,
                         .past_lengths = role_view(append.past_lengths, VKATTN_ROLE_PAST_LENGTHS),
                         .cu_seqlens = role_view(append.cu_seqlens, VKATTN_ROLE_CU_SEQLENS_Q),
                         .block_table = role_view(append.block_table, VKATTN_ROLE_BLOCK_TABLE),
                         .batch = append.batch,
                         .positions = append.positions});
}

} // namespace vkattn
