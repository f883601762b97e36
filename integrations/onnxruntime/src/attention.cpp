// Attention of ONNX, and MultiHeadAttention and GroupQueryAttention of com.microsoft.
#include "operators.hpp"
#include "rotary.hpp"

#include <algorithm>
#include <limits>

namespace vkattn_ort {
namespace {

std::uint64_t whole(std::int64_t size) { return static_cast<std::uint64_t>(size); }

std::string shape_text(const std::vector<std::int64_t> &shape) {
    std::string text = "[";
    for (const std::int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
    return text + "]";
}

Failure refused(const char *name, const Tensor &tensor, const std::string &expected) {
    return Failure(ORT_INVALID_ARGUMENT,
                   std::string(name) + " has shape " + shape_text(tensor.shape) + ", expected " + expected);
}

// Returns [B,H,L,D] of [B,L,H*D], or of a tensor that is stored by heads.
View heads_of(const Call &call, const char *name, const Tensor &tensor, std::int64_t heads) {
    const auto &shape = tensor.shape;
    if (shape.size() == 4)
        return heads_apart(call.view(tensor), {whole(shape[0]), whole(shape[1]), whole(shape[2]), whole(shape[3])});
    if (shape.size() != 3) throw refused(name, tensor, "3 or 4 dimensions");
    if (heads <= 0 || shape[2] % heads != 0)
        throw refused(name, tensor, "a last dimension that " + std::to_string(heads) + " heads divide");
    return heads_in_rows(call.view(tensor), {whole(shape[0]), whole(heads), whole(shape[1]), whole(shape[2] / heads)},
                         whole(shape[2]));
}

// One call of vkattn's attention: its description, and where its tensors lie.
struct Attention {
    vkattn_attention_desc desc{};
    std::vector<std::pair<vkattn_role, View>> bound;

    void give(vkattn_tensor vkattn_attention_desc::*member, vkattn_role role, const View &view) {
        desc.*member = view.layout;
        bound.emplace_back(role, view);
    }
    void submit(const Call &call) const { call.submit(call.context().attention_plan(desc), bound); }
};

Attention attention_of(const View &query, const View &key, const View &value, const View &output) {
    Attention attention;
    attention.give(&vkattn_attention_desc::query, VKATTN_ROLE_QUERY, query);
    attention.give(&vkattn_attention_desc::key, VKATTN_ROLE_KEY, key);
    attention.give(&vkattn_attention_desc::value, VKATTN_ROLE_VALUE, value);
    attention.give(&vkattn_attention_desc::output, VKATTN_ROLE_OUTPUT, output);
    return attention;
}

// Gives a mask of 1 to 4 dimensions, which lie at the end of [B,H,Lq,Lk].
void give_mask(const Call &call, Attention &attention, const char *name, const Tensor &mask, std::uint64_t keys) {
    std::vector<std::uint64_t> shape(4, 1);
    if (mask.shape.empty() || mask.shape.size() > 4) throw refused(name, mask, "1 to 4 dimensions");
    std::copy(mask.shape.begin(), mask.shape.end(), shape.end() - static_cast<std::ptrdiff_t>(mask.shape.size()));
    if (shape[3] > keys || (shape[3] == 1 && keys > 1)) throw refused(name, mask, std::to_string(keys) + " keys");
    View view = call.view(mask);
    view.layout = vkattn::tensor(view.layout.type, shape);
    attention.give(&vkattn_attention_desc::attn_mask, VKATTN_ROLE_ATTN_MASK, view);
}

// Copies rows into a cache [B,H,capacity,D], from a position on or from one for each sequence.
void append(const Call &call, const View &rows, const View &cache, std::uint32_t offset,
            const View *past_lengths = nullptr) {
    if (vkattn_tensor_bytes(&rows.layout) == 0 || vkattn_tensor_bytes(&cache.layout) == 0) return;
    vkattn_kv_append_desc desc{};
    desc.source = rows.layout;
    desc.cache = cache.layout;
    desc.offset = offset;
    if (past_lengths) desc.past_lengths = past_lengths->layout;
    const View lengths = past_lengths ? *past_lengths : View{};
    call.submit(call.context().kv_append_plan(desc),
                {{VKATTN_ROLE_SOURCE, rows}, {VKATTN_ROLE_CACHE, cache}, {VKATTN_ROLE_PAST_LENGTHS, lengths}});
}

// The cache of one of K and V as ONNX has it: the past, given as an input, and behind it what is new; an output, or
// for this call.
struct Present {
    View heads;
    std::uint64_t past = 0;
};

Present present_of(Call &call, const View &rows, std::size_t past_input, std::size_t present_output) {
    const Tensor past = call.input(past_input);
    const bool wanted = call.wants_output(present_output);
    if (!past && !wanted) return {rows, 0};
    HeadSizes sizes = sizes_of(rows);
    const std::uint64_t past_len = past ? whole(past.shape.at(2)) : 0;
    if (past && (past.shape.size() != 4 || whole(past.shape[0]) != sizes.batch || whole(past.shape[1]) != sizes.heads ||
                 whole(past.shape[3]) != sizes.head_dim))
        throw refused("the past", past, "the batch, heads and head size of what is new");
    sizes.len += past_len;
    const std::vector<std::int64_t> shape = {
        static_cast<std::int64_t>(sizes.batch), static_cast<std::int64_t>(sizes.heads),
        static_cast<std::int64_t>(sizes.len), static_cast<std::int64_t>(sizes.head_dim)};
    const View room = wanted ? call.view(call.output(present_output, shape))
                             : call.temporary(rows.layout.type, {sizes.batch, sizes.heads, sizes.len, sizes.head_dim});
    const View cache = heads_apart(room, sizes);
    if (past)
        append(call, heads_apart(call.view(past), {sizes.batch, sizes.heads, past_len, sizes.head_dim}), cache, 0);
    append(call, rows, cache, static_cast<std::uint32_t>(past_len));
    return {cache, past_len};
}

// Returns the nearest int32: sizes and lengths that are larger mean "all", as the largest int64 does.
std::int32_t narrow_clamped(std::int64_t value) {
    using Limits = std::numeric_limits<std::int32_t>;
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, Limits::min(), Limits::max()));
}

std::vector<std::int32_t> narrowed(const std::vector<std::int64_t> &values, std::uint64_t count, const char *name) {
    if (values.size() != count)
        throw Failure(ORT_INVALID_ARGUMENT, std::string(name) + " has " + std::to_string(values.size()) +
                                                " elements, expected one for each of " + std::to_string(count) +
                                                " sequences");
    std::vector<std::int32_t> narrow(values.size());
    std::ranges::transform(values, narrow.begin(), narrow_clamped);
    return narrow;
}

void give_lengths(Call &call, Attention &attention, std::span<const std::int32_t> lengths) {
    attention.give(&vkattn_attention_desc::key_lengths, VKATTN_ROLE_KEY_LENGTHS,
                   call.numbers(lengths, {lengths.size()}));
}

// The numbers that all three have.
struct Numbers {
    std::optional<float> scale;
    float softcap = 0.0f;

    explicit Numbers(const Node &node) : softcap(node.number("softcap", 0.0f)) {
        const float given = node.number("scale", 0.0f);
        if (node.has_attribute("scale") && (given != 0.0f || node.domain() != "com.microsoft")) scale = given;
    }
    void give(vkattn_attention_desc &desc) const {
        if (scale) desc.scale = *scale;
        desc.softcap = softcap;
    }
};

// ------------------------------------------------------------------------------------------------ ai.onnx Attention

class OnnxAttention : public Operator {
  public:
    explicit OnnxAttention(const Node &node)
        : numbers_(node), query_heads_(node.integer("q_num_heads", 0)), kv_heads_(node.integer("kv_num_heads", 0)),
          window_left_(node.integer("left_window_size", -1)), window_right_(node.integer("right_window_size", -1)),
          causal_(node.integer("is_causal", 0) != 0) {}

    void compute(Call &call) const override {
        const Tensor q = call.input(0);
        const View query = heads_of(call, "Q", q, query_heads_);
        const Present key = present_of(call, heads_of(call, "K", call.input(1), kv_heads_), 4, 1);
        const Present value = present_of(call, heads_of(call, "V", call.input(2), kv_heads_), 5, 2);
        Attention attention = attention_of(query, key.heads, value.heads, output(call, q, query, value.heads));
        numbers_.give(attention.desc);
        give_masks(call, attention, key);
        attention.submit(call);
    }

  private:
    View output(const Call &call, const Tensor &q, const View &query, const View &value) const {
        const HeadSizes sizes = sizes_of(query);
        const auto dim = static_cast<std::int64_t>(value.layout.shape[3]);
        std::vector<std::int64_t> shape = q.shape;
        shape.back() = q.shape.size() == 4 ? dim : dim * query_heads_;
        return heads_of(call, "Y", call.output(0, shape), static_cast<std::int64_t>(sizes.heads));
    }

    void give_masks(Call &call, Attention &attention, const Present &key) const {
        vkattn_attention_desc &desc = attention.desc;
        if (causal_) desc.mask_flags |= VKATTN_MASK_CAUSAL;
        if (window_left_ >= 0 || window_right_ >= 0) desc.mask_flags |= VKATTN_MASK_WINDOW;
        desc.window_left = narrow_clamped(window_left_);
        desc.window_right = narrow_clamped(window_right_);
        if (const Tensor mask = call.input(3)) give_mask(call, attention, "attn_mask", mask, key.heads.layout.shape[2]);
        if (const Tensor lengths = call.input(6)) {
            give_lengths(call, attention, narrowed(call.integers(lengths), desc.query.shape[0], "nonpad_kv_seqlen"));
            desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        } else {
            desc.past_len = static_cast<std::uint32_t>(key.past);
        }
    }

    Numbers numbers_;
    std::int64_t query_heads_, kv_heads_, window_left_, window_right_;
    bool causal_;
};

// --------------------------------------------------------------------------------- com.microsoft MultiHeadAttention

class MultiHeadAttention : public Operator {
  public:
    explicit MultiHeadAttention(const Node &node)
        : numbers_(node), heads_(node.integer("num_heads", 0)), causal_(node.integer("unidirectional", 0) != 0) {}

    void compute(Call &call) const override {
        auto [query, rows, values] = projected(call);
        const Present key = present_of(call, rows, 6, 1);
        const Present value = present_of(call, values, 7, 2);
        const HeadSizes sizes = sizes_of(query);
        const auto dim = static_cast<std::int64_t>(value.heads.layout.shape[3]);
        const Tensor output = call.output(
            0, {static_cast<std::int64_t>(sizes.batch), static_cast<std::int64_t>(sizes.len), heads_ * dim});
        Attention attention = attention_of(query, key.heads, value.heads, heads_of(call, "the output", output, heads_));
        numbers_.give(attention.desc);
        if (causal_) attention.desc.mask_flags |= VKATTN_MASK_CAUSAL;
        attention.desc.past_len = static_cast<std::uint32_t>(key.past);
        const std::uint64_t keys = key.heads.layout.shape[2];
        if (const Tensor padding = call.input(4)) give_padding(call, attention, padding, keys);
        if (const Tensor bias = call.input(5)) give_mask(call, attention, "attention_bias", bias, keys);
        attention.submit(call);
    }

  private:
    struct Projected {
        View query, key, value;
    };

    // Returns Q, K and V, whether apart, packed or with biases.
    Projected projected(Call &call) const {
        const Tensor q = call.input(0), k = call.input(1), v = call.input(2), bias = call.input(3);
        Projected all;
        if (q.shape.size() == 5)
            all = {packed(call, q, 3, 0), packed(call, q, 3, 1), packed(call, q, 3, 2)};
        else if (k.shape.size() == 5)
            all = {heads_of(call, "query", q, heads_), packed(call, k, 2, 0), packed(call, k, 2, 1)};
        else if (k && v)
            all = {heads_of(call, "query", q, heads_), heads_of(call, "key", k, heads_),
                   heads_of(call, "value", v, heads_)};
        else
            throw Failure(ORT_INVALID_ARGUMENT, "key or value is absent, expected both or a packed query");
        if (!bias) return all;
        std::uint64_t first = 0;
        const View numbers = call.view(bias);
        for (View *each : {&all.query, &all.key, &all.value}) {
            if (each != &all.query && k.shape.size() == 4) break; // ONNX Runtime: K and V by heads have theirs
            const std::uint64_t size = each->layout.shape[1] * each->layout.shape[3];
            if (first + size > whole(bias.elements()))
                throw refused("bias", bias, "the widths of query, key and value");
            *each = with_bias(call, *each, numbers, first);
            first += size;
        }
        return all;
    }

    // Returns part `part` of [B,L,H,parts,D].
    static View packed(const Call &call, const Tensor &tensor, std::uint64_t parts, std::uint64_t part) {
        const auto &shape = tensor.shape;
        if (whole(shape[3]) != parts)
            throw refused("what is packed", tensor, std::to_string(parts) + " in its fourth dimension");
        const std::uint64_t batch = whole(shape[0]), len = whole(shape[1]), heads = whole(shape[2]),
                            dim = whole(shape[4]);
        View view = call.view(tensor);
        view.layout = vkattn::tensor(view.layout.type, {batch, heads, len, dim},
                                     {len * heads * parts * dim, parts * dim, heads * parts * dim, 1}, part * dim);
        return view;
    }

    // key_padding_mask: lengths, or 1 for each key that may be seen.
    static void give_padding(Call &call, Attention &attention, const Tensor &padding, std::uint64_t keys) {
        const std::uint64_t batch = attention.desc.query.shape[0], queries = attention.desc.query.shape[2];
        const std::vector<std::int64_t> values = call.integers(padding);
        const auto &shape = padding.shape;
        if (shape.size() == 1 && whole(shape[0]) == batch)
            return give_lengths(call, attention, narrowed(values, batch, "key_padding_mask"));
        if (shape.size() == 1 && whole(shape[0]) == 3 * batch + 2) { // lengths, and behind them where packed rows begin
            const std::vector<std::int64_t> lengths(values.begin(),
                                                    values.begin() + static_cast<std::ptrdiff_t>(batch));
            return give_lengths(call, attention, narrowed(lengths, batch, "key_padding_mask"));
        }
        const bool by_key = shape.size() == 2 && whole(shape[0]) == batch && whole(shape[1]) == keys;
        const bool by_query =
            shape.size() == 3 && whole(shape[0]) == batch && whole(shape[1]) == queries && whole(shape[2]) == keys;
        if (!by_key && !by_query)
            throw refused("key_padding_mask", padding,
                          "[batch], [3 * batch + 2], [batch,keys] or [batch,queries,keys]");
        std::vector<std::uint8_t> flags(values.size());
        std::ranges::transform(values, flags.begin(), [&](std::int64_t value) { return (value != 0) != by_key; });
        if (by_key)
            attention.give(&vkattn_attention_desc::key_padding_mask, VKATTN_ROLE_KEY_PADDING_MASK,
                           call.bytes(VKATTN_TYPE_BOOL, flags, {batch, keys}));
        else
            attention.give(&vkattn_attention_desc::attn_mask, VKATTN_ROLE_ATTN_MASK,
                           call.bytes(VKATTN_TYPE_BOOL, flags, {batch, 1, queries, keys}));
    }

    Numbers numbers_;
    std::int64_t heads_;
    bool causal_;
};

// -------------------------------------------------------------------------------- com.microsoft GroupQueryAttention

std::uint64_t grouped_head_dim(const Node &node) {
    const auto &shape = node.input(0).shape;
    const std::int64_t heads = node.integer("num_heads", 0), kv_heads = node.integer("kv_num_heads", 0);
    if (!shape || shape->size() != 3 || heads <= 0 || kv_heads <= 0) return 0;
    const std::int64_t all = node.input(1).present ? heads : heads + 2 * kv_heads;
    return static_cast<std::uint64_t>(std::max<std::int64_t>((*shape)[2] / all, 0));
}

// Returns how many keys before its own a query sees, -1: all. local_window_size counts the query's own from ONNX Runtime 1.24 on.
std::int64_t window_left_of(const Node &node, const Device &device) {
    const std::int64_t size = node.integer("local_window_size", -1);
    return size < 0 ? -1 : device.runtime_minor() < 24 ? size : size - 1;
}

class GroupQueryAttention : public Operator {
  public:
    GroupQueryAttention(const Node &node, Device &device)
        : numbers_(node), heads_(node.integer("num_heads", 0)), kv_heads_(node.integer("kv_num_heads", 0)),
          window_left_(window_left_of(node, device)), causal_(node.integer("causal", 1) != 0),
          smooth_(node.integer("smooth_softmax", -1) > 0) {
        if (node.integer("do_rotary", 0) != 0)
            rotation_ = Rotation::shared(device, node.constant(7), node.constant(8), grouped_head_dim(node),
                                         node.integer("rotary_interleaved", 0) != 0);
        if (node.input(11).present) {
            const std::vector<float> sinks = node.constant(11).floats();
            sinks_.assign(sinks.begin(), sinks.end());
        } else if (smooth_) {
            sinks_.assign(whole(heads_), 0.0f);
        }
    }

    void compute(Call &call) const override {
        auto [query, key, value] = projected(call);
        const Lengths lengths = lengths_of(call, query);
        if (rotation_) rotate(call, lengths, query, key);
        const View past_lengths = call.numbers(lengths.past, {lengths.past.size()});
        const View keys = appended(call, key, lengths, past_lengths, 3, 1);
        const View values = appended(call, value, lengths, past_lengths, 4, 2);
        const HeadSizes sizes = sizes_of(query);
        const Tensor output =
            call.output(0, {static_cast<std::int64_t>(sizes.batch), static_cast<std::int64_t>(sizes.len),
                            static_cast<std::int64_t>(sizes.heads * sizes.head_dim)});
        Attention attention = attention_of(query, keys, values, heads_of(call, "the output", output, heads_));
        numbers_.give(attention.desc);
        give_masks(call, attention, lengths, past_lengths);
        attention.submit(call);
    }

  private:
    struct Projected {
        View query, key, value;
    };
    // past, all: tokens of each sequence, before this call and with it; total: of the longest
    struct Lengths {
        std::vector<std::int32_t> past, all;
        std::uint64_t total;
        bool is_prompt;
    };

    Projected projected(const Call &call) const {
        const Tensor q = call.input(0), k = call.input(1), v = call.input(2);
        if (k && v) {
            const Projected apart{heads_of(call, "query", q, heads_), heads_of(call, "key", k, kv_heads_),
                                  heads_of(call, "value", v, kv_heads_)};
            const std::uint64_t new_tokens = sizes_of(apart.query).len;
            const std::string expected = "the query's " + std::to_string(new_tokens) + " new tokens";
            if (sizes_of(apart.key).len != new_tokens) throw refused("key", k, expected);
            if (sizes_of(apart.value).len != new_tokens) throw refused("value", v, expected);
            return apart;
        }
        const std::int64_t all = heads_ + 2 * kv_heads_;
        if (q.shape.size() != 3 || q.shape[2] % all != 0)
            throw refused("query", q, "a last dimension that " + std::to_string(all) + " packed heads divide");
        const std::uint64_t batch = whole(q.shape[0]), len = whole(q.shape[1]), row = whole(q.shape[2]),
                            dim = row / whole(all);
        const auto part = [&](std::int64_t heads, std::int64_t first) {
            return heads_in_rows(call.view(q), {batch, whole(heads), len, dim}, row, whole(first) * dim);
        };
        return {part(heads_, 0), part(kv_heads_, heads_), part(kv_heads_, heads_ + kv_heads_)};
    }

    static Lengths lengths_of(const Call &call, const View &query) {
        const auto new_tokens = static_cast<std::int64_t>(query.layout.shape[2]);
        const std::vector<std::int64_t> total = call.integers(call.input(6));
        if (total.size() != 1 || total[0] < new_tokens || total[0] > std::numeric_limits<std::int32_t>::max())
            throw Failure(ORT_INVALID_ARGUMENT,
                          "total_sequence_length is " + (total.empty() ? "empty" : std::to_string(total[0])) +
                              ", expected at least the " + std::to_string(new_tokens) + " new tokens");
        Lengths lengths{{},
                        narrowed(call.integers(call.input(5)), query.layout.shape[0], "seqlens_k"),
                        whole(total[0]),
                        total[0] == new_tokens};
        for (std::int32_t &each : lengths.all) {
            if (each < 0 || each >= total[0])
                throw Failure(ORT_INVALID_ARGUMENT, "seqlens_k holds " + std::to_string(each) + ", expected 0 to " +
                                                        std::to_string(total[0] - 1) +
                                                        ", less than total_sequence_length");
            ++each;
            const std::int64_t past = lengths.is_prompt ? 0 : each - new_tokens;
            if (past < 0)
                throw Failure(ORT_INVALID_ARGUMENT, "seqlens_k holds " + std::to_string(each - 1) +
                                                        ", expected at least the " + std::to_string(new_tokens) +
                                                        " new tokens less 1");
            lengths.past.push_back(static_cast<std::int32_t>(past));
        }
        return lengths;
    }

    void rotate(Call &call, const Lengths &lengths, View &query, View &key) const {
        const HeadSizes sizes = sizes_of(query);
        std::vector<std::int64_t> positions(sizes.batch * sizes.len);
        const Tensor given = call.input(9);
        std::vector<std::int64_t> ids;
        if (given) ids = call.integers(given);
        if (given && (ids.empty() || (!lengths.is_prompt && ids.size() != positions.size())))
            throw refused("position_ids", given, "[batch,new tokens]");
        for (std::size_t each = 0; each < positions.size(); ++each) {
            const auto token = static_cast<std::int64_t>(each % sizes.len);
            std::int64_t position = lengths.past[each / sizes.len] + token;
            if (given) position = lengths.is_prompt ? position_after(ids[0], token) : ids[each];
            positions[each] = position;
        }
        for (View *each : {&query, &key}) {
            const HeadSizes own = sizes_of(*each);
            const std::uint64_t row = own.heads * own.head_dim;
            const View rotated = heads_in_rows(call.temporary(each->layout.type, {own.batch, own.len, row}), own, row);
            rotation_->apply(call, *each, rotated, positions);
            *each = rotated;
        }
    }

    // Returns the cache with the new rows: in place where the past and the present are one tensor.
    View appended(Call &call, const View &rows, const Lengths &lengths, const View &past_lengths,
                  std::size_t past_input, std::size_t present_output) const {
        const Tensor past = call.input(past_input);
        HeadSizes sizes = sizes_of(rows);
        if (past && (past.shape.size() != 4 || whole(past.shape[0]) != sizes.batch ||
                     whole(past.shape[1]) != sizes.heads || whole(past.shape[3]) != sizes.head_dim))
            throw refused("the past", past, "[batch,kv_num_heads,tokens,head size] of the new tokens");
        HeadSizes held = sizes;
        held.len = past ? whole(past.shape[2]) : 0;
        for (const std::int32_t tokens : lengths.past)
            if (whole(tokens) > held.len)
                throw refused("the past", past,
                              "the " + std::to_string(tokens) + " tokens before seqlens_k's new ones");
        sizes.len = std::max(held.len, lengths.total);
        const std::vector<std::int64_t> shape = {
            static_cast<std::int64_t>(sizes.batch), static_cast<std::int64_t>(sizes.heads),
            static_cast<std::int64_t>(sizes.len), static_cast<std::int64_t>(sizes.head_dim)};
        Tensor present;
        if (call.wants_output(present_output)) present = call.output(present_output, shape);
        const View room = present
                              ? call.view(present)
                              : call.temporary(rows.layout.type, {sizes.batch, sizes.heads, sizes.len, sizes.head_dim});
        const View cache = heads_apart(room, sizes);
        const bool in_place = past && present && past.address == present.address;
        if (held.len != 0 && !in_place && (present || !lengths.is_prompt))
            append(call, heads_apart(call.view(past), held), cache, 0);
        if (present && !in_place) clear_behind(call, cache, held.len, sizes_of(rows).len, lengths);
        append(call, rows, cache, 0, &past_lengths);
        return cache;
    }

    // Sets rows of a cache to 0 from one on, where some sequence's new rows do not reach its end.
    static void clear_behind(Call &call, const View &cache, std::uint64_t first, std::uint64_t new_tokens,
                             const Lengths &lengths) {
        HeadSizes sizes = sizes_of(cache);
        const auto is_short = [&](std::int32_t past) { return whole(past) + new_tokens < sizes.len; };
        if (first == sizes.len || std::ranges::none_of(lengths.past, is_short)) return;
        sizes.len -= first;
        const std::vector<std::uint8_t> zeros(sizes.head_dim * sizeof(float));
        View rows = call.bytes(cache.layout.type, zeros, {sizes.head_dim});
        rows.layout =
            vkattn::tensor(cache.layout.type, {sizes.batch, sizes.heads, sizes.len, sizes.head_dim}, {0, 0, 0, 1});
        append(call, rows, cache, static_cast<std::uint32_t>(first));
    }

    void give_masks(Call &call, Attention &attention, const Lengths &lengths, const View &past_lengths) const {
        vkattn_attention_desc &desc = attention.desc;
        if (causal_) desc.mask_flags |= VKATTN_MASK_CAUSAL;
        if (window_left_ >= 0) {
            desc.mask_flags |= VKATTN_MASK_WINDOW;
            desc.window_left = narrow_clamped(window_left_);
            desc.window_right = -1;
        }
        attention.give(&vkattn_attention_desc::past_lengths, VKATTN_ROLE_PAST_LENGTHS, past_lengths);
        give_lengths(call, attention, lengths.all);
        if (const Tensor bias = call.input(10)) give_mask(call, attention, "attention_bias", bias, lengths.total);
        if (sinks_.empty()) return;
        if (sinks_.size() != whole(heads_))
            throw Failure(ORT_INVALID_ARGUMENT,
                          "head_sink has " + std::to_string(sinks_.size()) + " elements, expected num_heads");
        const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t *>(sinks_.data()),
                                                  sinks_.size() * 4);
        attention.give(&vkattn_attention_desc::sinks, VKATTN_ROLE_SINKS,
                       call.bytes(VKATTN_TYPE_F32, bytes, {sinks_.size()}));
    }

    Numbers numbers_;
    std::int64_t heads_, kv_heads_, window_left_;
    bool causal_, smooth_;
    std::vector<float> sinks_;
    std::shared_ptr<const Rotation> rotation_;
};

std::string rank_obstacle(const char *name, const Declared &value, std::size_t least, std::size_t most) {
    if (!value.present || !value.shape || (value.shape->size() >= least && value.shape->size() <= most)) return "";
    return std::string(name) + " has " + std::to_string(value.shape->size()) + " dimensions, expected " +
           std::to_string(least) + (least == most ? "" : " to " + std::to_string(most));
}

std::string first_of(std::initializer_list<std::string> obstacles) {
    for (const std::string &obstacle : obstacles)
        if (!obstacle.empty()) return obstacle;
    return "";
}

// Heads: of a tensor of 3 dimensions; those of more say their size.
std::string heads_obstacle(const char *name, const Declared &value, std::int64_t heads) {
    constexpr std::int64_t kLargestHeadDim = 576; // of vkattn's attention
    if (!value.present || !value.shape || value.shape->size() < 3) return "";
    if (value.shape->size() == 3 && heads <= 0)
        return std::string(name) + " has " + std::to_string(heads) + " heads, expected 1 or more";
    const std::int64_t size = value.shape->back() / (value.shape->size() == 3 ? heads : 1);
    if (size <= kLargestHeadDim) return "";
    return std::string(name) + " has heads of " + std::to_string(size) + " elements, expected at most " +
           std::to_string(kLargestHeadDim);
}

// A mask's type and its last dimension, which kernels read in a row.
std::string mask_obstacle(const char *name, const Declared &mask) {
    if (!mask.present) return "";
    if (mask.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL && mask.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT &&
        mask.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16)
        return std::string(name) + " is " + element_name(mask.type) + ", expected bool, float or float16";
    if (mask.shape && !mask.shape->empty() && mask.shape->back() == 1)
        return std::string(name) + " has 1 as its last dimension, expected one element for each key";
    return rank_obstacle(name, mask, 1, 4);
}

std::string absent_obstacle(const char *name, const Declared &value) {
    return value.present ? std::string(name) + " is given, expected none" : "";
}

} // namespace

std::string attention_obstacle(const Node &node) {
    if (node.output(3).present) return "qk_matmul_output is asked for, expected Y and the present alone";
    if (const std::int64_t precision = node.integer("softmax_precision", 1);
        precision == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE)
        return "softmax_precision is double, expected at most float";
    if (node.input(4).present != node.input(5).present)
        return "past_key or past_value is absent, expected both or neither";
    if (node.input(6).present && node.input(4).present)
        return "nonpad_kv_seqlen is given beside a past, expected one of them";
    return first_of({float_obstacle("Q", node.input(0)), float_obstacle("K", node.input(1)),
                     float_obstacle("V", node.input(2)), rank_obstacle("Q", node.input(0), 3, 4),
                     heads_obstacle("Q", node.input(0), node.integer("q_num_heads", 0)),
                     heads_obstacle("K", node.input(1), node.integer("kv_num_heads", 0)),
                     heads_obstacle("V", node.input(2), node.integer("kv_num_heads", 0)),
                     mask_obstacle("attn_mask", node.input(3))});
}

std::unique_ptr<Operator> make_attention(const Node &node, Device &) { return std::make_unique<OnnxAttention>(node); }

constexpr float kHides = -10000.0f; // what com.microsoft adds where no mask_filter_value is given

std::string multi_head_obstacle(const Node &node) {
    if (node.output(3).present) return "qk is asked for, expected the output and the present alone";
    const std::int64_t heads = node.integer("num_heads", 0);
    if (heads <= 0) return "num_heads is " + std::to_string(heads) + ", expected 1 or more";
    // what is added to a hidden key's score: 0 in f32 after the softmax, as it is here
    if (node.input(4).present && node.number("mask_filter_value", kHides) > kHides / 10)
        return "mask_filter_value is " + std::to_string(node.number("mask_filter_value", kHides)) +
               ", expected -1000 or less";
    return first_of({float_obstacle("query", node.input(0)), absent_obstacle("past_sequence_length", node.input(8)),
                     absent_obstacle("cache_indirection", node.input(9)), rank_obstacle("query", node.input(0), 3, 5),
                     heads_obstacle("query", node.input(0), heads), heads_obstacle("key", node.input(1), heads),
                     heads_obstacle("value", node.input(2), heads), mask_obstacle("attention_bias", node.input(5)),
                     rank_obstacle("key_padding_mask", node.input(4), 1, 3),
                     node.input(4).shape && node.input(4).shape->size() == 3 && node.input(5).present
                         ? "key_padding_mask of 3 dimensions beside attention_bias, expected one of them"
                         : ""});
}

std::unique_ptr<Operator> make_multi_head(const Node &node, Device &) {
    return std::make_unique<MultiHeadAttention>(node);
}

std::string grouped_obstacle(const Node &node) {
    if (node.output(3).present) return "output_qk is asked for, expected the output and the present alone";
    for (const char *heads : {"num_heads", "kv_num_heads"})
        if (node.integer(heads, 0) <= 0)
            return std::string(heads) + " is " + std::to_string(node.integer(heads, 0)) + ", expected 1 or more";
    if (node.text("k_quant_type", "NONE") != "NONE" || node.text("v_quant_type", "NONE") != "NONE")
        return "a quantised cache, expected one of the query's type";
    if (node.integer("local_window_size", -1) == 0) return "local_window_size is 0, expected -1 or at least 1";
    if (node.integer("sliding_window_cache", 0) != 0)
        return "sliding_window_cache is 1, expected caches of whole sequences";
    if (node.input(11).present && !node.input(11).constant)
        return "head_sink is no constant of the model, expected a constant";
    if (node.input(1).present != node.input(2).present)
        return "key or value is absent, expected both or a packed query";
    if (node.input(3).present && node.input(3).type != node.input(0).type)
        return std::string("a cache of ") + element_name(node.input(3).type) + ", expected the query's type";
    if (node.integer("do_rotary", 0) != 0) {
        if (!node.input(7).constant || !node.input(8).constant)
            return "cos_cache or sin_cache is no constant of the model, expected constant tables";
        if (grouped_head_dim(node) == 0)
            return "the size of a head is not known before a call, expected a static shape";
    }
    const std::int64_t kv_heads = node.integer("kv_num_heads", 0),
                       heads = node.integer("num_heads", 0) + (node.input(1).present ? 0 : 2 * kv_heads);
    return first_of({float_obstacle("query", node.input(0)), rank_obstacle("query", node.input(0), 3, 3),
                     heads_obstacle("query", node.input(0), heads), heads_obstacle("key", node.input(1), kv_heads),
                     heads_obstacle("value", node.input(2), kv_heads),
                     node.input(11).present ? float_obstacle("head_sink", node.input(11)) : "",
                     absent_obstacle("k_scale", node.input(12)), absent_obstacle("v_scale", node.input(13)),
                     absent_obstacle("q_norm_weight", node.input(14)), absent_obstacle("k_norm_weight", node.input(15)),
                     absent_obstacle("query_seqlens", node.input(16)),
                     mask_obstacle("attention_bias", node.input(10))});
}

std::unique_ptr<Operator> make_grouped(const Node &node, Device &device) {
    return std::make_unique<GroupQueryAttention>(node, device);
}

} // namespace vkattn_ort
