#include "runtime/ops/kv_append.hpp"

#include "runtime/error.hpp"
#include "runtime/ops/elementwise.hpp"
#include "runtime/tensor.hpp"

namespace vkattn {
namespace {

bool in_pairs(const vkattn_tensor &tensor) {
    bool even = tensor.offset % 2 == 0 && tensor.strides[3] == 1;
    for (uint32_t dim = 0; dim < 3; ++dim) even = even && tensor.strides[dim] % 2 == 0;
    return even;
}

bool is_float(vkattn_type type) {
    return type == VKATTN_TYPE_F32 || type == VKATTN_TYPE_F16 || type == VKATTN_TYPE_BF16;
}

vkattn_tensor checked_rank4(const vkattn_tensor &given, const char *name) {
    require(present(given), name, ": absent, expected a tensor of rank 4");
    const vkattn_tensor tensor = normalised(given, name);
    require(tensor.rank == 4, name, ": rank ", tensor.rank, ", expected 4");
    return tensor;
}

void check_room(const KvAppend &append) {
    const vkattn_tensor &source = append.source, &cache = append.cache;
    const bool same =
        source.shape[0] == cache.shape[0] && source.shape[1] == cache.shape[1] && source.shape[3] == cache.shape[3];
    require(same, "cache: shape ", shape_text(cache), ", expected the batch, heads and head size of source, ",
            shape_text(source));
    require(present(append.past_lengths) || append.offset + source.shape[2] <= cache.shape[2],
            "offset: ", append.offset, " with ", source.shape[2], " rows, expected at most the capacity of cache, ",
            cache.shape[2]);
    require(!overlaps_itself(cache),
            "cache: strides make elements overlap, expected each element to have its own place");
}

} // namespace

KvAppend check_kv_append(const vkattn_kv_append_desc &desc) {
    KvAppend append{checked_rank4(desc.source, "source"), checked_rank4(desc.cache, "cache"),
                    normalised(desc.past_lengths, "past_lengths"), desc.offset};
    require(is_float(append.source.type), "source: type ", type_name(append.source.type),
            ", expected F32, F16 or BF16");
    require(is_float(append.cache.type) || is_quantised(append.cache.type), "cache: type ",
            type_name(append.cache.type), ", expected F32, F16, BF16, Q8_0 or Q4_0");
    const vkattn_tensor &past = append.past_lengths;
    require(!present(past) || (past.type == VKATTN_TYPE_I32 && past.rank == 1 &&
                               past.shape[0] == append.source.shape[0] && is_contiguous(past)),
            "past_lengths: type ", type_name(past.type), ", shape ", shape_text(past), ", expected contiguous I32 [",
            append.source.shape[0], "]");
    check_room(append);
    return append;
}

void add_kv_append(Plan &plan, const View &source, const View &cache, uint32_t offset, const View &past_lengths) {
    const vkattn_tensor &from = source.tensor;
    gpu::AppendPush push{};
    for (uint32_t dim = 0; dim < 4; ++dim) {
        push.source_strides[dim] = static_cast<uint32_t>(from.strides[dim]);
        push.cache_strides[dim] = static_cast<uint32_t>(cache.tensor.strides[dim]);
    }
    push.positions = static_cast<uint32_t>(from.shape[2]);
    push.head_dim = static_cast<uint32_t>(from.shape[3]);
    push.capacity = static_cast<uint32_t>(cache.tensor.shape[2]);
    push.offset = offset;
    gpu::AppendConstants constants;
    constants.SOURCE_FORMAT = static_cast<uint32_t>(from.type);
    constants.CACHE_FORMAT = static_cast<uint32_t>(cache.tensor.type);
    constants.CACHE_PAIRS = in_pairs(cache.tensor);
    constants.HAS_PAST_LENGTHS = present(past_lengths);
    Step &step = plan.add_step(plan.context().pipelines().get(Module::kKvAppend, constants), push);
    const uint64_t elements = is_quantised(cache.tensor.type) ? QUANTISED_BLOCK : 2; // of an invocation
    set_elementwise_grid(plan, step, from.shape[2] * ((from.shape[3] + elements - 1) / elements), from, "kv_append");
    bind(plan, step, BINDING_APPEND_SOURCE, source);
    bind(plan, step, BINDING_APPEND_CACHE, cache);
    bind(plan, step, BINDING_APPEND_PAST_LENGTHS, past_lengths);
    step.written_binding = BINDING_APPEND_CACHE;
}

} // namespace vkattn
