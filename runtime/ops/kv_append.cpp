#include "runtime/ops/kv_append.hpp"

#include "runtime/ops/elementwise.hpp"

namespace vkattn {
namespace {

bool in_pairs(const vkattn_tensor &tensor) {
    bool even = tensor.offset % 2 == 0 && tensor.strides[3] == 1;
    for (uint32_t dim = 0; dim < 3; ++dim) even = even && tensor.strides[dim] % 2 == 0;
    return even;
}

} // namespace

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
    set_elementwise_grid(plan, step, from.shape[2] * ((from.shape[3] + 1) / 2), from, "kv_append");
    bind(plan, step, BINDING_APPEND_SOURCE, source);
    bind(plan, step, BINDING_APPEND_CACHE, cache);
    bind(plan, step, BINDING_APPEND_PAST_LENGTHS, past_lengths);
    step.written_binding = BINDING_APPEND_CACHE;
}

} // namespace vkattn
