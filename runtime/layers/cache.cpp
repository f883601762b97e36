#include "runtime/layers/cache.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/emit/rows.hpp"
#include "runtime/problem/sequences.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/vulkan/submissions.hpp"
#include "shaders/interface/advance_lengths.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

vkattn_tensor layout_of(const CacheSizes &sizes, vkattn_type type, uint32_t width, const char *name) {
    const bool paged = sizes.page_len > 0;
    const vkattn_tensor layout = paged ? contiguous(type, {sizes.page_count, sizes.heads, sizes.page_len, width})
                                       : contiguous(type, {sizes.batch, sizes.heads, sizes.capacity, width});
    require_cached(layout, name);
    return normalised(layout, name);
}

std::unique_ptr<Buffer> make_buffer(Context &context, const vkattn_tensor &layout, const char *name,
                                    uint32_t word = 0) {
    if (!present(layout)) return nullptr;
    auto buffer = std::make_unique<Buffer>(context, extent_bytes(layout), name);
    // rows that no token has reached are read, under a mask: they must not hold what another program left
    context.submissions().run([&](VkCommandBuffer commands) {
        context.vk().vkCmdFillBuffer(commands, buffer->handle(), 0, buffer->bytes() / 4 * 4, word);
    });
    return buffer;
}

const PartScales &scales_of_part(const CacheSizes &sizes, vkattn_cache_part part) {
    return part == VKATTN_CACHE_VALUES ? sizes.value_scales : sizes.key_scales;
}

// F32, of rows [X,H,L,D]: as many as share none.
vkattn_tensor scales_layout(const PartScales &scales, const vkattn_tensor &rows) {
    switch (scales.scaling) {
    case VKATTN_SCALING_TENSOR:
        return contiguous(VKATTN_TYPE_F32, {1, 1, 1, 1});
    case VKATTN_SCALING_HEAD:
        return contiguous(VKATTN_TYPE_F32, {1, rows.shape[1], 1, 1});
    case VKATTN_SCALING_ROW:
        return contiguous(VKATTN_TYPE_F32, {rows.shape[0], rows.shape[1], rows.shape[2], 1});
    default:
        return {};
    }
}

uint64_t row_bytes(const View &part) { return bytes_of(part.tensor.type, part.tensor.shape[3]); }

constexpr uint32_t kNoPage = 0xffffffffu; // -1 in a block table

void check_sizes(const CacheSizes &sizes) {
    require(sizes.batch <= kLargestSize, "batch: ", sizes.batch, ", expected at most 2^29");
    require(sizes.capacity <= kLargestSize, "capacity: ", sizes.capacity, ", expected at most 2^29");
    require(sizes.heads >= 1 && sizes.key_width >= 1, "kv_heads, head_dim: ", sizes.heads, ", ", sizes.key_width,
            ", expected at least 1");
    if (sizes.page_len == 0) {
        require(sizes.page_count == 0, "page_count: ", sizes.page_count, ", expected 0 without page_len");
        return;
    }
    require(is_page(sizes.page_len), "page_len: ", sizes.page_len, ", expected 0, or a power of two from 8 to 2^29");
    require(sizes.page_count <= kLargestSize, "page_count: ", sizes.page_count, ", expected at most 2^29");
}

// The places of a sequence's tokens in a part of a cache.
struct Rows {
    const View &part;
    std::span<const uint32_t> pages; // empty: the part has none
    uint32_t sequence;

    uint64_t len() const { return part.tensor.shape[2]; } // rows that lie together
    uint64_t start(uint64_t head, uint32_t token) const { // in bytes
        const uint64_t entry = pages.empty() ? sequence : pages[token / len()];
        return ((entry * part.tensor.shape[1] + head) * len() + token % len()) * row_bytes(part);
    }
    uint32_t together(uint32_t token) const { return static_cast<uint32_t>(len() - token % len()); }
};

// Where so many rows of each head have to be copied.
std::vector<VkBufferCopy> row_copies(const Rows &from, const Rows &to, uint32_t rows) {
    std::vector<VkBufferCopy> copies;
    for (uint32_t token = 0, count = 0; token < rows; token += count) {
        count = std::min({rows - token, from.together(token), to.together(token)});
        for (uint64_t head = 0; head < from.part.tensor.shape[1]; ++head)
            copies.push_back({from.start(head, token), to.start(head, token), count * row_bytes(from.part)});
    }
    return copies;
}

// Copies that follow see what was copied before, and write what was read before.
void order_copies(const Functions &vk, VkCommandBuffer commands) {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    memory.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &memory, 0,
                            nullptr, 0, nullptr);
}

// What a block table must change to become the next: numbers for a sequence, from a page of it on.
struct TableRow {
    uint32_t sequence, first;
    std::vector<uint32_t> pages;
};

std::vector<TableRow> changed_rows(const PageTable &now, const PageTable &next, uint32_t sequences) {
    std::vector<TableRow> rows;
    for (uint32_t sequence = 0; sequence < sequences; ++sequence) {
        const std::span<const uint32_t> old = now.pages(sequence), held = next.pages(sequence);
        const auto first = std::ranges::mismatch(old, held).in2;
        std::vector<uint32_t> pages(first, held.end());
        const auto unchanged = static_cast<uint32_t>(first - held.begin());
        pages.resize(std::max(old.size(), held.size()) - unchanged, kNoPage);
        if (!pages.empty()) rows.push_back({sequence, unchanged, std::move(pages)});
    }
    return rows;
}

} // namespace

Cache::Cache(Context &context, const CacheSizes &sizes) : context_(context), sizes_(sizes) {
    check_sizes(sizes);
    key_layout_ = layout_of(sizes, sizes.key_type, sizes.key_width, "key_type");
    value_layout_ = table_layout_ = {};
    if (sizes.value_width > 0) value_layout_ = layout_of(sizes, sizes.value_type, sizes.value_width, "value_type");
    key_scales_layout_ = scales_layout(sizes.key_scales, key_layout_);
    value_scales_layout_ = scales_layout(sizes.value_scales, value_layout_);
    lengths_layout_ = contiguous(VKATTN_TYPE_I32, {sizes.batch});
    if (paged()) table_layout_ = contiguous(VKATTN_TYPE_I32, {sizes.batch, divide_up(sizes.capacity, sizes.page_len)});
    for (const vkattn_tensor *layout :
         {&key_layout_, &value_layout_, &key_scales_layout_, &value_scales_layout_, &table_layout_})
        require_bindable(context.caps(), *layout, "cache");
    keys_ = make_buffer(context, key_layout_, "vkattn cache keys");
    values_ = make_buffer(context, value_layout_, "vkattn cache values");
    key_scales_ = make_buffer(context, key_scales_layout_, "vkattn cache key scales");
    value_scales_ = make_buffer(context, value_scales_layout_, "vkattn cache value scales");
    for (const auto &[numbers, buffer] :
         {std::pair{&sizes.key_scales.numbers, &key_scales_}, {&sizes.value_scales.numbers, &value_scales_}})
        if (!numbers->empty()) (*buffer)->write(0, numbers->data(), numbers->size() * sizeof(float));
    lengths_ = make_buffer(context, lengths_layout_, "vkattn cache lengths");
    table_ = make_buffer(context, table_layout_, "vkattn cache block table", kNoPage);
    host_lengths_.resize(sizes.batch);
    pages_ = PageTable(sizes.batch, sizes.page_len, sizes.page_count);
}

uint64_t Cache::bytes() const {
    uint64_t total = 0;
    for (const Buffer *buffer : buffers()) total += buffer->bytes();
    return total;
}

std::vector<const Buffer *> Cache::buffers() const {
    std::vector<const Buffer *> all;
    for (const auto *buffer : {&keys_, &values_, &key_scales_, &value_scales_, &lengths_, &table_})
        if (*buffer != nullptr) all.push_back(buffer->get());
    return all;
}

View Cache::part(vkattn_cache_part part) const {
    switch (part) {
    case VKATTN_CACHE_KEYS:
        return keys();
    case VKATTN_CACHE_VALUES:
        return values();
    case VKATTN_CACHE_KEY_SCALES:
        return view_of(key_scales_layout_, key_scales_);
    case VKATTN_CACHE_VALUE_SCALES:
        return view_of(value_scales_layout_, value_scales_);
    case VKATTN_CACHE_LENGTHS:
        return lengths();
    case VKATTN_CACHE_BLOCK_TABLE:
        return block_table();
    default:
        fail(VKATTN_ERROR_INVALID_ARGUMENT, "part: ", static_cast<int>(part), ", expected a vkattn_cache_part");
    }
}

View Cache::scales_of(vkattn_cache_part part) const {
    return this->part(part == VKATTN_CACHE_VALUES ? VKATTN_CACHE_VALUE_SCALES : VKATTN_CACHE_KEY_SCALES);
}

bool Cache::makes_scales(vkattn_cache_part part) const {
    return scales_of_part(sizes_, part).scaling == VKATTN_SCALING_ROW;
}

std::vector<View> Cache::parts_of_rows() const {
    std::vector<View> parts;
    for (const vkattn_cache_part part : {VKATTN_CACHE_KEYS, VKATTN_CACHE_VALUES}) {
        if (!present(this->part(part))) continue;
        parts.push_back(this->part(part));
        if (makes_scales(part)) parts.push_back(scales_of(part));
    }
    return parts;
}

void Cache::require_sequence(uint32_t sequence, const char *name) const {
    require(sequence < sizes_.batch, name, ": ", sequence, ", expected less than the cache's batch of ", sizes_.batch);
}

void Cache::make(Change change) {
    const std::vector<TableRow> rows = changed_rows(pages_, change.pages, sizes_.batch);
    std::vector<uint32_t> numbers;
    std::vector<VkBufferCopy> entries;
    for (const TableRow &row : rows) {
        const uint64_t entry = row.sequence * table_layout_.shape[1] + row.first;
        entries.push_back(
            {numbers.size() * sizeof(uint32_t), entry * sizeof(uint32_t), row.pages.size() * sizeof(uint32_t)});
        numbers.insert(numbers.end(), row.pages.begin(), row.pages.end());
    }
    VkBufferCopy length{};
    if (change.sequence.has_value()) {
        length = {numbers.size() * sizeof(uint32_t), *change.sequence * sizeof(uint32_t), sizeof(uint32_t)};
        numbers.push_back(change.length);
    }
    const uint64_t bytes = numbers.size() * sizeof(uint32_t);
    const std::shared_ptr<Buffer> staging = bytes > 0 ? context_.staging().take(bytes, VKATTN_MEMORY_UPLOAD) : nullptr;
    if (bytes > 0) std::memcpy(staging->mapped(), numbers.data(), bytes);
    context_.submissions().run([&](VkCommandBuffer commands) {
        const Functions &vk = context_.vk();
        if (change.copy) change.copy(commands);
        if (!entries.empty())
            vk.vkCmdCopyBuffer(commands, staging->handle(), table_->handle(), static_cast<uint32_t>(entries.size()),
                               entries.data());
        if (length.size > 0) vk.vkCmdCopyBuffer(commands, staging->handle(), lengths_->handle(), 1, &length);
    });
    pages_ = std::move(change.pages);
    if (change.sequence.has_value()) host_lengths_[*change.sequence] = change.length;
}

void Cache::copy_pages(VkCommandBuffer commands, std::span<const PageTable::Copy> copies) const {
    for (const View &part : parts_of_rows()) {
        const uint64_t bytes = part.tensor.shape[1] * part.tensor.shape[2] * row_bytes(part);
        std::vector<VkBufferCopy> regions;
        for (const PageTable::Copy &copy : copies) regions.push_back({copy.from * bytes, copy.to * bytes, bytes});
        context_.vk().vkCmdCopyBuffer(commands, part.source.buffer, part.source.buffer,
                                      static_cast<uint32_t>(regions.size()), regions.data());
    }
}

void Cache::reserve(std::span<const uint32_t> tokens) {
    require(tokens.size() == 1 || tokens.size() == sizes_.batch, "count: ", tokens.size(),
            ", expected 1, or the cache's batch of ", sizes_.batch);
    std::vector<uint32_t> lengths = host_lengths_;
    for (uint32_t sequence = 0; sequence < sizes_.batch; ++sequence) {
        const uint32_t more = tokens.size() == 1 ? tokens[0] : tokens[sequence];
        require_room(more <= sizes_.capacity - lengths[sequence], "cache: sequence ", sequence, " holds ",
                     lengths[sequence], " tokens, and ", more, " more exceed its capacity, expected at most ",
                     sizes_.capacity, " in all");
        lengths[sequence] += more;
    }
    if (paged()) reserve_pages(lengths);
    host_lengths_ = std::move(lengths);
}

// For as many tokens as each sequence then holds.
void Cache::reserve_pages(std::span<const uint32_t> lengths) {
    bool ready = true;
    for (uint32_t sequence = 0; sequence < sizes_.batch; ++sequence)
        ready = ready && pages_.is_ready(sequence, host_lengths_[sequence], lengths[sequence]);
    if (ready) return;
    Change change{pages_};
    std::vector<PageTable::Copy> copies;
    for (uint32_t sequence = 0; sequence < sizes_.batch; ++sequence) {
        const auto copy = change.pages.prepare(sequence, host_lengths_[sequence], lengths[sequence]);
        if (copy.has_value()) copies.push_back(*copy);
    }
    if (!copies.empty()) change.copy = [&](VkCommandBuffer commands) { copy_pages(commands, copies); };
    make(std::move(change));
}

std::unique_ptr<RunHold> Cache::grow(uint32_t tokens) { return std::make_unique<CacheRoom>(*this, tokens); }

void Cache::release(uint32_t tokens) {
    for (uint32_t &length : host_lengths_) length -= tokens;
}

void Cache::rewind(uint32_t sequence, uint32_t length) {
    require_sequence(sequence);
    require(length <= host_lengths_[sequence], "length: ", length, ", expected at most the ", host_lengths_[sequence],
            " tokens of sequence ", sequence);
    Change change{pages_};
    if (paged()) change.pages.shrink(sequence, length);
    change.sequence = sequence;
    change.length = length;
    make(std::move(change));
}

void Cache::move_token(VkCommandBuffer commands, uint32_t sequence, uint32_t from, uint32_t to) const {
    std::span<const uint32_t> pages;
    if (paged()) pages = pages_.pages(sequence);
    for (const View &part : parts_of_rows()) {
        const Rows rows{part, pages, sequence};
        std::vector<VkBufferCopy> copies;
        for (uint64_t head = 0; head < part.tensor.shape[1]; ++head)
            copies.push_back({rows.start(head, from), rows.start(head, to), row_bytes(part)});
        context_.vk().vkCmdCopyBuffer(commands, part.source.buffer, part.source.buffer,
                                      static_cast<uint32_t>(copies.size()), copies.data());
    }
}

void Cache::keep(uint32_t sequence, uint32_t length, std::span<const uint32_t> tokens) {
    require_sequence(sequence);
    const uint32_t held = host_lengths_[sequence], end = length + static_cast<uint32_t>(tokens.size());
    require(length <= held, "length: ", length, ", expected at most the ", held, " tokens of sequence ", sequence);
    for (size_t i = 0; i < tokens.size(); ++i) {
        const uint32_t least = i == 0 ? length : tokens[i - 1] + 1;
        require(tokens[i] >= least && tokens[i] < held, "tokens[", i, "]: ", tokens[i], ", expected at least ", least,
                " and less than the ", held, " tokens of sequence ", sequence);
    }
    for (uint32_t token = length; paged() && token < end; ++token)
        require(tokens[token - length] == token || pages_.is_ready(sequence, token, token + 1), "sequence: ", sequence,
                " shares the page of token ", token, ", expected pages of its own where tokens move to");
    Change change{pages_};
    if (paged()) change.pages.shrink(sequence, end);
    // in this order no token is written before it has been read
    change.copy = [&](VkCommandBuffer commands) {
        for (uint32_t to = length; const uint32_t from : tokens) {
            if (from != to) {
                move_token(commands, sequence, from, to);
                order_copies(context_.vk(), commands);
            }
            ++to;
        }
    };
    change.sequence = sequence;
    change.length = end;
    make(std::move(change));
}

void Cache::copy_from(const Cache &from, uint32_t from_sequence, uint32_t to_sequence) {
    from.require_sequence(from_sequence);
    require_sequence(to_sequence);
    require(&from.context_ == &context_, "from: a cache of another context, expected one of the same");
    const CacheSizes &a = from.sizes_, &b = sizes_;
    require(a.heads == b.heads && a.key_width == b.key_width && a.value_width == b.value_width &&
                a.key_type == b.key_type && a.value_type == b.value_type && a.rotation == b.rotation &&
                a.key_scales == b.key_scales && a.value_scales == b.value_scales,
            "from: a cache of other heads, sizes, types or rotation, or with other scales, expected the same");
    const uint32_t rows = from.host_lengths_[from_sequence];
    require_room(rows <= b.capacity, "from: sequence ", from_sequence, " holds ", rows,
                 " tokens, expected at most the ", b.capacity, " that this cache has room for");
    if (&from == this && from_sequence == to_sequence) return;
    Change change{pages_};
    if (paged()) {
        change.pages.shrink(to_sequence, 0);
        change.pages.grow(to_sequence, rows);
    }
    const std::vector<uint32_t> to_pages(change.pages.pages(to_sequence).begin(),
                                         change.pages.pages(to_sequence).end());
    change.copy = [&](VkCommandBuffer commands) {
        const std::vector<View> sources = from.parts_of_rows(), targets = parts_of_rows();
        for (size_t part = 0; part < sources.size() && rows > 0; ++part) {
            const View &source = sources[part], &target = targets[part];
            const std::vector<VkBufferCopy> regions = row_copies(
                {source, from.pages_.pages(from_sequence), from_sequence}, {target, to_pages, to_sequence}, rows);
            context_.vk().vkCmdCopyBuffer(commands, source.source.buffer, target.source.buffer,
                                          static_cast<uint32_t>(regions.size()), regions.data());
        }
    };
    change.sequence = to_sequence;
    change.length = rows;
    make(std::move(change));
}

void Cache::share_prefix(uint32_t from_sequence, uint32_t to_sequence, uint32_t length) {
    require(paged(), "cache: without pages, expected one with page_len");
    require_sequence(from_sequence, "from_sequence");
    require_sequence(to_sequence, "to_sequence");
    require(from_sequence != to_sequence, "to_sequence: ", to_sequence, ", expected another than from_sequence");
    require(host_lengths_[to_sequence] == 0, "to_sequence: ", to_sequence, " holds ", host_lengths_[to_sequence],
            " tokens, expected an empty one");
    require(length <= host_lengths_[from_sequence], "length: ", length, ", expected at most the ",
            host_lengths_[from_sequence], " tokens of sequence ", from_sequence);
    Change change{pages_};
    change.pages.shrink(to_sequence, 0); // what an append that failed has left
    change.pages.share(from_sequence, to_sequence, length);
    change.sequence = to_sequence;
    change.length = length;
    make(std::move(change));
}

void Cache::read(vkattn_cache_part part, uint32_t sequence, std::span<float> values) const {
    require_sequence(sequence);
    const View held = this->part(part);
    require(present(held), "part: values, expected keys: this cache keeps the values as a part of the keys");
    const uint64_t rows = host_lengths_[sequence], width = held.tensor.shape[3];
    require(values.size() == sizes_.heads * rows * width, "values: room for ", values.size(), " numbers, expected ",
            sizes_.heads * rows * width);
    if (rows == 0) return;
    Buffer buffer(context_, values.size_bytes(), "vkattn cache read");
    MovedRows copied{.source = held,
                     .target = {contiguous(VKATTN_TYPE_F32, {1, sizes_.heads, rows, width}),
                                {Source::Kind::kOwned, VKATTN_ROLE_WORKSPACE, buffer.handle(), 0}}};
    if (is_rotated(part)) copied.hadamard = hadamard_block(width); // once more, which takes it back
    copied.source_scales = scales_of(part);
    copied.batch = 1;
    copied.positions = static_cast<uint32_t>(rows);
    if (paged()) {
        copied.gathers = true;
        copied.block_table = block_table();
        copied.block_table.tensor.shape[0] = 1;
        copied.block_table.tensor.offset = sequence * table_layout_.strides[0];
    } else {
        const auto take_sequence = [&](vkattn_tensor &tensor) {
            tensor.shape[0] = 1;
            tensor.shape[2] = rows;
            tensor.offset = sequence * tensor.strides[0];
        };
        take_sequence(copied.source.tensor);
        if (makes_scales(part)) take_sequence(copied.source_scales.tensor);
    }
    PlanBuilder builder(context_);
    add_rows(builder, copied);
    builder.build()->run({});
    buffer.read(0, values.data(), values.size_bytes());
}

void add_count(PlanBuilder &builder, Cache &cache, const Positions &tokens, uint32_t total) {
    const bool packed = present(tokens.cu_seqlens);
    const gpu::AdvancePush push{{}, {}, cache.sizes().batch, tokens.longest, cache.sizes().capacity, total};
    gpu::AdvanceConstants constants;
    constants.HAS_CU_SEQLENS = packed;
    Step &step = builder.add_step(shaders::advance_lengths, constants, push);
    step.groups[0] = total == 0 ? 0 : tiles(push.sequences, ELEMENTWISE_WORKGROUP_SIZE);
    bind(builder, step, BINDING_ADVANCE_LENGTHS, cache.lengths());
    bind(builder, step, BINDING_ADVANCE_CU_SEQLENS, tokens.cu_seqlens);
    builder.set_growth(cache, packed ? 0 : tokens.longest);
}

namespace {

// A caller's rows for a part of the cache, [B,H,L,D] or packed; heads and size are the part's.
View checked_rows(const vkattn_tensor &given, const char *name, vkattn_role role, const View &part, uint64_t batch) {
    const vkattn_tensor rows = checked_rank(given, name, 4);
    require_float(rows, name);
    const vkattn_tensor &held = part.tensor;
    require_shape(rows, name, contiguous(rows.type, {batch, held.shape[1], rows.shape[2], held.shape[3]}));
    return role_view(rows, role);
}

} // namespace

void plan_cache_append(PlanBuilder &builder, Cache &cache, const vkattn_cache_append_desc &desc) {
    require(&cache.context() == &builder.context(), "cache: of another context, expected one of this context");
    const CacheSizes &sizes = cache.sizes();
    const bool packed = present(desc.cu_seqlens);
    const uint64_t batch = packed ? 1 : sizes.batch;
    const View key = checked_rows(desc.key, "key", VKATTN_ROLE_KEY, cache.keys(), batch);
    const vkattn_tensor &tokens = key.tensor;
    View value;
    if (present(cache.values())) {
        value = checked_rows(desc.value, "value", VKATTN_ROLE_VALUE, cache.values(), batch);
        require(value.tensor.shape[2] == tokens.shape[2], "value: ", value.tensor.shape[2], " tokens, expected the ",
                tokens.shape[2], " of key");
    } else {
        require(!present(desc.value), "value: given, expected none: this cache keeps the values as a part of the keys");
    }
    Positions positions;
    positions.past_lengths = cache.lengths();
    positions.sequences = sizes.batch;
    positions.longest = static_cast<uint32_t>(tokens.shape[2]);
    if (packed) {
        const vkattn_tensor cu_seqlens = checked_cu_seqlens(desc.cu_seqlens, "cu_seqlens", tokens, "key");
        require(sequences_of(cu_seqlens) == sizes.batch, "cu_seqlens: shape ", shape_text(cu_seqlens), ", expected [",
                sizes.batch + 1, "], for the cache's batch of ", sizes.batch);
        positions.cu_seqlens = role_view(cu_seqlens, VKATTN_ROLE_CU_SEQLENS_Q);
        positions.longest = longest_sequence(desc.max_seqlen, "max_seqlen", tokens);
    } else {
        require(positions.longest <= sizes.capacity, "key: ", positions.longest,
                " tokens, expected at most the capacity of cache, ", sizes.capacity);
    }
    std::vector<MovedRows> parts;
    for (const auto &[rows, part] : {std::pair{key, VKATTN_CACHE_KEYS}, {value, VKATTN_CACHE_VALUES}})
        if (present(rows))
            parts.push_back({.source = rows,
                             .target = cache.part(part),
                             .past_lengths = positions.past_lengths,
                             .cu_seqlens = positions.cu_seqlens,
                             .block_table = cache.block_table(),
                             .batch = positions.sequences,
                             .positions = positions.longest,
                             .hadamard = cache.is_rotated(part) ? hadamard_block(rows.tensor.shape[3]) : 0,
                             .target_scales = cache.scales_of(part),
                             .makes_scales = cache.makes_scales(part)});
    add_rows(builder, parts);
    builder.barrier();
    add_count(builder, cache, positions, static_cast<uint32_t>(tokens.shape[2]));
}

} // namespace vkattn
