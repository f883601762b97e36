#include "runtime/layers/cache.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/ops/kv_append.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/vulkan/submissions.hpp"
#include "shaders/interface/advance_lengths.h"

#include <algorithm>

namespace vkattn {
namespace {

vkattn_tensor layout_of(const CacheSizes &sizes, vkattn_type type, uint32_t width, const char *name) {
    const vkattn_tensor layout = contiguous(type, {sizes.batch, sizes.heads, sizes.capacity, width});
    require_float_or_quantised(layout, name);
    return normalised(layout, name);
}

std::unique_ptr<Buffer> make_buffer(Context &context, const vkattn_tensor &layout, const char *name) {
    auto buffer = std::make_unique<Buffer>(context, extent_bytes(layout), name);
    // rows that no token has reached are read, under a mask: they must not hold what another program left
    context.submissions().run([&](VkCommandBuffer commands) {
        context.vk().vkCmdFillBuffer(commands, buffer->handle(), 0, VK_WHOLE_SIZE, 0);
    });
    return buffer;
}

uint64_t row_bytes(const View &part) { return bytes_of(part.tensor.type, part.tensor.shape[3]); }

} // namespace

Cache::Cache(Context &context, const CacheSizes &sizes) : context_(context), sizes_(sizes) {
    require(sizes.batch >= 1, "batch: 0, expected at least 1");
    require(sizes.capacity >= 1 && sizes.capacity <= kLargestSize, "capacity: ", sizes.capacity,
            ", expected 1 to 2^29");
    require(sizes.heads >= 1 && sizes.key_width >= 1, "kv_heads, head_dim: ", sizes.heads, ", ", sizes.key_width,
            ", expected at least 1");
    key_layout_ = layout_of(sizes, sizes.key_type, sizes.key_width, "key_type");
    value_layout_ = {};
    if (sizes.value_width > 0) value_layout_ = layout_of(sizes, sizes.value_type, sizes.value_width, "value_type");
    lengths_layout_ = contiguous(VKATTN_TYPE_I32, {sizes.batch});
    require_bindable(context.caps(), key_layout_, "cache");
    require_bindable(context.caps(), value_layout_, "cache");
    keys_ = make_buffer(context, key_layout_, "vkattn cache keys");
    if (sizes.value_width > 0) values_ = make_buffer(context, value_layout_, "vkattn cache values");
    lengths_ = make_buffer(context, lengths_layout_, "vkattn cache lengths");
    host_lengths_.resize(sizes.batch);
}

uint64_t Cache::bytes() const { return keys_->bytes() + (values_ ? values_->bytes() : 0) + lengths_->bytes(); }

View Cache::values() const {
    if (!values_) return {};
    return {value_layout_, owned(*values_)};
}

void Cache::require_sequence(uint32_t sequence) const {
    require(sequence < sizes_.batch, "sequence: ", sequence, ", expected less than the cache's batch of ",
            sizes_.batch);
}

void Cache::reserve(uint32_t tokens) {
    for (uint32_t sequence = 0; sequence < sizes_.batch; ++sequence)
        require(tokens <= sizes_.capacity - host_lengths_[sequence], "cache: sequence ", sequence, " holds ",
                host_lengths_[sequence], " tokens, and ", tokens, " more exceed its capacity, expected at most ",
                sizes_.capacity, " in all");
    for (uint32_t &length : host_lengths_) length += tokens;
}

void Cache::release(uint32_t tokens) {
    for (uint32_t &length : host_lengths_) length -= tokens;
}

void Cache::rewind(uint32_t sequence, uint32_t length) {
    require_sequence(sequence);
    require(length <= host_lengths_[sequence], "length: ", length, ", expected at most the ", host_lengths_[sequence],
            " tokens of sequence ", sequence);
    const auto value = static_cast<int32_t>(length);
    lengths_->write(sequence * sizeof value, &value, sizeof value);
    host_lengths_[sequence] = length;
}

void Cache::copy_rows(VkCommandBuffer commands, const View &from, uint32_t from_sequence, const View &to,
                      uint32_t to_sequence, uint32_t rows) const {
    if (!present(from) || rows == 0) return;
    std::vector<VkBufferCopy> regions;
    for (uint64_t head = 0; head < sizes_.heads; ++head) {
        const auto start = [&](const View &part, uint32_t sequence) {
            return (sequence * part.tensor.shape[1] + head) * part.tensor.shape[2] * row_bytes(part);
        };
        regions.push_back({start(from, from_sequence), start(to, to_sequence), rows * row_bytes(from)});
    }
    context_.vk().vkCmdCopyBuffer(commands, from.source.buffer, to.source.buffer, static_cast<uint32_t>(regions.size()),
                                  regions.data());
}

void Cache::copy_from(const Cache &from, uint32_t from_sequence, uint32_t to_sequence) {
    from.require_sequence(from_sequence);
    require_sequence(to_sequence);
    require(&from.context_ == &context_, "from: a cache of another context, expected one of the same");
    const CacheSizes &a = from.sizes_, &b = sizes_;
    require(a.heads == b.heads && a.key_width == b.key_width && a.value_width == b.value_width &&
                a.key_type == b.key_type && a.value_type == b.value_type,
            "from: a cache of other heads, sizes or types, expected the same");
    const uint32_t rows = from.host_lengths_[from_sequence];
    require(rows <= b.capacity, "from: sequence ", from_sequence, " holds ", rows, " tokens, expected at most the ",
            b.capacity, " that this cache has room for");
    if (&from == this && from_sequence == to_sequence) return;
    context_.submissions().run([&](VkCommandBuffer commands) {
        copy_rows(commands, from.keys(), from_sequence, keys(), to_sequence, rows);
        copy_rows(commands, from.values(), from_sequence, values(), to_sequence, rows);
    });
    host_lengths_[to_sequence] = rows;
    rewind(to_sequence, rows);
}

void Cache::read(const View &part, uint32_t sequence, std::span<float> values) const {
    require_sequence(sequence);
    require(present(part), "part: values, expected keys: this cache keeps the values as a part of the keys");
    const uint64_t rows = host_lengths_[sequence], width = part.tensor.shape[3];
    require(values.size() == sizes_.heads * rows * width, "values: room for ", values.size(), " numbers, expected ",
            sizes_.heads * rows * width);
    if (rows == 0) return;
    View source = part;
    source.tensor.shape[0] = 1;
    source.tensor.shape[2] = rows;
    source.tensor.offset = sequence * part.tensor.strides[0];
    Buffer buffer(context_, values.size_bytes(), "vkattn cache read");
    PlanBuilder builder(context_);
    add_kv_append(builder, {.source = source,
                            .cache = {contiguous(VKATTN_TYPE_F32, {1, sizes_.heads, rows, width}), owned(buffer)}});
    builder.build()->run({});
    buffer.read(0, values.data(), values.size_bytes());
}

void add_advance(PlanBuilder &builder, const Cache &cache, uint32_t tokens) {
    builder.barrier();
    const gpu::AdvancePush push{{}, cache.sizes().batch, tokens, cache.sizes().capacity};
    Step &step = builder.add_step(Module::kAdvanceLengths, gpu::AdvanceConstants{}, push);
    step.groups[0] = tiles(push.sequences, ELEMENTWISE_WORKGROUP_SIZE);
    bind(builder, step, BINDING_ADVANCE_LENGTHS, cache.lengths());
}

} // namespace vkattn
