#include "runtime/layers/call.hpp"

#include "runtime/ops/attention.hpp"
#include "runtime/problem/sequences.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {
namespace {

View checked_cache_tensor(const vkattn_tensor &given, vkattn_role role, uint64_t batch, uint64_t heads, uint64_t len,
                          uint64_t width) {
    const char *name = role_name(role);
    const vkattn_tensor tensor = normalised(given, name);
    if (!present(tensor)) return {};
    require_float(tensor, name);
    const vkattn_tensor expected =
        heads == 0 ? contiguous(tensor.type, {batch, len, width}) : contiguous(tensor.type, {batch, heads, len, width});
    require_shape(tensor, name, expected);
    const View view = role_view(tensor, role);
    return heads == 0 ? as_one_head(view) : view;
}

} // namespace

vkattn_tensor checked_output(const LayerCall &call, uint64_t batch, uint64_t len, uint64_t width) {
    return checked_output_tokens(call.output, batch, len, width);
}

View checked_residual(const LayerCall &call, uint64_t batch, uint64_t len, uint64_t width) {
    if (!present(call.residual)) return {};
    return role_view(checked_tokens(call.residual, "residual", batch, len, width), VKATTN_ROLE_RESIDUAL);
}

void require_absent(const vkattn_tensor &first, const vkattn_tensor &second, const char *names, const char *layer) {
    require(!present(first) && !present(second), names, ": given, expected none for layer ", layer);
}

void require_paired_cache(const LayerCall &call) {
    require(present(call.past_key) == present(call.past_value),
            "past_key, past_value: one is absent, expected both or neither");
    require(present(call.present_key) == present(call.present_value),
            "present_key, present_value: one is absent, expected both or neither");
}

namespace {

vkattn_type computed_type(const PlanBuilder &builder, vkattn_type type) {
    const DeviceCaps &caps = builder.context().caps();
    const bool has_bf16 = caps.features.bfloat16_cooperative_matrix && may_use_matrices(caps);
    const bool computes = (type == VKATTN_TYPE_F16 && has_half_workspaces(caps)) ||
                          (type == VKATTN_TYPE_BF16 && has_bf16 && caps.traits.half_workspaces != 0);
    return computes ? type : VKATTN_TYPE_F32;
}

} // namespace

vkattn_type workspace_type(const PlanBuilder &builder, const LayerCall &call, const View &hidden) {
    const vkattn_type type = call.intermediate_type;
    if (type == VKATTN_TYPE_NONE) return hidden_type(builder, hidden);
    require(is_float(type), "intermediate_type: ", static_cast<int>(type), ", expected F32, F16 or BF16");
    return computed_type(builder, type);
}

vkattn_type hidden_type(const PlanBuilder &builder, const View &hidden) {
    return computed_type(builder, hidden.tensor.type);
}

ProductInput normalise_for(PlanBuilder &builder, const View &tokens, const RmsNorm &norm, vkattn_type type,
                           std::span<const View> weights) {
    return vkattn::normalise_for(builder, tokens, norm, weights, type == VKATTN_TYPE_F32 ? VKATTN_TYPE_NONE : type);
}

View workspace_view(PlanBuilder &builder, vkattn_type type, std::initializer_list<uint64_t> shape) {
    View view{contiguous(type, shape), {}};
    view.source = builder.reserve_workspace(extent_bytes(view.tensor));
    return view;
}

Heads workspace_heads(PlanBuilder &builder, vkattn_type type, uint64_t batch, uint64_t len, uint64_t heads,
                      uint64_t head_dim) {
    Heads result;
    result.tokens = workspace_view(builder, type, {batch, len, heads * head_dim});
    result.heads = heads_of(result.tokens, heads);
    return result;
}

std::vector<View> workspace_parts(PlanBuilder &builder, vkattn_type type, uint64_t batch, uint64_t len,
                                  uint64_t head_dim, std::span<const uint64_t> heads) {
    std::vector<View> parts;
    View next;
    for (const uint64_t count : heads) {
        const View room = workspace_view(builder, type, {count, batch, len, head_dim});
        if (parts.empty()) next = room;
        parts.push_back(
            reshaped(next, {batch, count, len, head_dim}, {len * head_dim, batch * len * head_dim, head_dim, 1}));
        next.tensor.offset += count * batch * len * head_dim;
    }
    return parts;
}

View heads_of(const View &tokens, uint64_t heads) {
    const vkattn_tensor &tensor = tokens.tensor;
    const uint64_t head_dim = tensor.shape[2] / heads;
    return reshaped(tokens, {tensor.shape[0], heads, tensor.shape[1], head_dim},
                    {tensor.strides[0], head_dim, tensor.strides[1], 1});
}

View slice(const View &view, uint64_t first, uint64_t count) {
    View part = view;
    const uint32_t last = part.tensor.rank - 1;
    part.tensor.shape[last] = count;
    part.tensor.offset += first * part.tensor.strides[last];
    return part;
}

View reshaped(const View &view, std::initializer_list<uint64_t> shape, std::initializer_list<uint64_t> strides,
              uint64_t offset) {
    View result = view;
    result.tensor.rank = static_cast<uint32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), result.tensor.shape);
    std::copy(strides.begin(), strides.end(), result.tensor.strides);
    result.tensor.offset += offset;
    return result;
}

View as_one_head(const View &tokens) {
    const vkattn_tensor &tensor = tokens.tensor;
    return reshaped(tokens, {tensor.shape[0], 1, tensor.shape[1], tensor.shape[2]},
                    {tensor.strides[0], 0, tensor.strides[1], tensor.strides[2]});
}

void add_projection(PlanBuilder &builder, const Layer &layer, const std::string &name, const ProductInput &input,
                    const View &output, LinearEpilogue epilogue) {
    epilogue.bias = layer.weight(name + ".bias");
    add_linear(builder, input, layer.weight(name + ".weight"), output, epilogue);
}

namespace {

// Projections in one product.
struct Product {
    View weight, bias; // [N,in], [N] or absent
    std::vector<uint64_t> widths;
};

// Whether both are of a kind, and the second begins where the first ends.
bool follows(const View &first, const View &second) {
    const vkattn_tensor &a = first.tensor, &b = second.tensor;
    const bool alike = a.type == b.type && a.rank == b.rank && (a.rank == 1 || a.shape[1] == b.shape[1]);
    Source end = first.source;
    end.offset += bytes_of(a.type, extent_elements(a)); // to the byte: a word may be filled up behind 16-bit elements
    return alike && second.source == end;
}

// Makes the projection a part of the product, if it lies behind it.
bool append(Product &product, const Product &projection) {
    if (!follows(product.weight, projection.weight)) return false;
    if (present(product.bias) != present(projection.bias)) return false;
    if (present(product.bias) && !follows(product.bias, projection.bias)) return false;
    const uint64_t width = projection.widths.front();
    product.weight.tensor.shape[0] += width;
    if (present(product.bias)) product.bias.tensor.shape[0] += width;
    product.widths.push_back(width);
    return true;
}

std::vector<Product> products_of(const Layer &layer, std::span<const std::string> names) {
    std::vector<Product> products;
    for (const std::string &name : names) {
        const View weight = layer.weight(name + ".weight");
        const Product projection{weight, layer.weight(name + ".bias"), {weight.tensor.shape[0]}};
        if (products.empty() || !append(products.back(), projection)) products.push_back(projection);
    }
    return products;
}

} // namespace

std::vector<View> projection_weights(const Layer &layer, std::span<const std::string> names) {
    std::vector<View> weights;
    for (const Product &product : products_of(layer, names)) weights.push_back(product.weight);
    return weights;
}

namespace {

// Whether both are the same elements in the same order.
bool is_same(const View &a, const View &b) {
    const vkattn_tensor &x = a.tensor, &y = b.tensor;
    return a.source == b.source && x.type == y.type && x.rank == y.rank && x.offset == y.offset &&
           std::equal(x.shape, x.shape + x.rank, y.shape) && std::equal(x.strides, x.strides + x.rank, y.strides);
}

bool is_same(const ProductInput &a, const ProductInput &b) {
    return is_same(a.tokens, b.tokens) && is_same(a.norm.weight, b.norm.weight) && a.norm.epsilon == b.norm.epsilon;
}

// Those of one input.
void append_projections(PlanBuilder &builder, const Layer &layer, std::span<const Projection> projections,
                        vkattn_type type, uint64_t head_dim, std::vector<View> &outputs) {
    const ProductInput &input = projections.front().input;
    std::vector<std::string> names;
    std::vector<uint64_t> heads;
    for (const Projection &projection : projections) {
        names.push_back(projection.name);
        heads.push_back(layer.weight(projection.name + ".weight").tensor.shape[0] / head_dim);
    }
    const uint64_t *shape = input.tokens.tensor.shape;
    const std::vector<View> parts = workspace_parts(builder, type, shape[0], shape[1], head_dim, heads);
    size_t first = 0; // of the product
    for (const Product &product : products_of(layer, names)) {
        View output = parts[first];
        output.tensor.shape[1] = product.weight.tensor.shape[0] / head_dim;
        LinearEpilogue epilogue;
        epilogue.bias = product.bias;
        add_linear(builder, input, product.weight, output, epilogue);
        first += product.widths.size();
    }
    outputs.insert(outputs.end(), parts.begin(), parts.end());
}

} // namespace

std::vector<View> add_projections(PlanBuilder &builder, const Layer &layer, std::span<const Projection> projections,
                                  vkattn_type type, uint64_t head_dim) {
    std::vector<View> outputs;
    for (size_t first = 0, end = 0; first < projections.size(); first = end) {
        while (end < projections.size() && is_same(projections[end].input, projections[first].input)) ++end;
        append_projections(builder, layer, projections.subspan(first, end - first), type, head_dim, outputs);
    }
    return outputs;
}

std::vector<View> add_token_projections(PlanBuilder &builder, const Layer &layer, const ProductInput &input,
                                        std::span<const std::string> names, vkattn_type type) {
    const uint64_t batch = input.tokens.tensor.shape[0], len = input.tokens.tensor.shape[1];
    std::vector<View> outputs;
    for (const Product &product : products_of(layer, names)) {
        View all; // in the room that each takes alone: a layer's workspace is told without its weights
        for (const uint64_t width : product.widths) {
            const View room = workspace_view(builder, type, {batch, len, width});
            if (!present(all)) all = room;
        }
        const uint64_t total = product.weight.tensor.shape[0];
        all = reshaped(all, {batch, len, total}, {len * total, total, 1});
        LinearEpilogue epilogue;
        epilogue.bias = product.bias;
        add_linear(builder, input, product.weight, all, epilogue);
        uint64_t first = 0;
        for (const uint64_t width : product.widths) {
            outputs.push_back(slice(all, first, width));
            first += width;
        }
    }
    return outputs;
}

DescribedCore described_core(const Layer &layer, const LayerCall &call, const CoreAttention &core) {
    DescribedCore described{};
    vkattn_attention_desc &desc = described.desc;
    AttentionSources &sources = described.sources = attention_roles();
    copy_tensors(call, desc);
    desc.query = core.query.tensor;
    desc.key = core.key.tensor;
    desc.value = core.value.tensor; // absent: the first elements of the keys
    desc.output = core.output.tensor;
    desc.log_sum_exp = core.log_sum_exp.tensor;
    desc.scale = layer.config().scale.present != 0 ? layer.config().scale : core.scale;
    desc.softcap = layer.config().softcap;
    desc.kv_head_mapping = core.kv_head_mapping;
    desc.kernel = call.kernel;
    desc.key_indices = core.key_indices.tensor;
    desc.tree_mask = call.tree_mask;
    View key_scales, value_scales;
    if (call.object != nullptr) {
        const KvRotation held = call.object->sizes().rotation;
        desc.key_rotation = held.key ? VKATTN_ROTATION_HADAMARD : VKATTN_ROTATION_NONE;
        desc.value_rotation = held.value ? VKATTN_ROTATION_HADAMARD : VKATTN_ROTATION_NONE;
        key_scales = call.object->scales_of(VKATTN_CACHE_KEYS);
        if (present(core.value)) value_scales = call.object->scales_of(VKATTN_CACHE_VALUES);
    }
    desc.key_scales = key_scales.tensor;
    desc.value_scales = value_scales.tensor;
    set_visible(desc, sources, call, core.positions, core.block_table);
    sources[BINDING_QUERY] = core.query.source;
    sources[BINDING_KEY] = core.key.source;
    sources[BINDING_VALUE] = present(core.value) ? core.value.source : core.key.source;
    sources[BINDING_OUTPUT] = core.output.source;
    sources[BINDING_LOG_SUM_EXP] = core.log_sum_exp.source;
    sources[BINDING_KEY_INDICES] = core.key_indices.source;
    sources[BINDING_KEY_SCALES] = key_scales.source;
    sources[BINDING_VALUE_SCALES] = present(core.value) ? value_scales.source : key_scales.source;
    return described;
}

void add_core_attention(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const CoreAttention &core) {
    const DescribedCore described = described_core(layer, call, core);
    const bool paged = present(core.block_table);
    add_attention(builder, check_attention(described.desc, paged ? call.object->sizes().capacity : kLargestSize),
                  described.sources);
}

namespace {

void require_size(const char *what, uint64_t actual, uint64_t expected) {
    require(actual == expected, "cache: ", what, " ", actual, ", expected ", expected, ", of the layer and its query");
}

// The cache object takes the place of the call's own tensors.
CacheTensors object_part(const Cache &cache, vkattn_cache_part part, const CacheTokens &tokens,
                         const Positions &positions) {
    const CacheSizes &sizes = cache.sizes();
    require_size("batch", sizes.batch, positions.sequences);
    require_size("heads", sizes.heads, std::max<uint64_t>(tokens.heads, 1));
    require_size("size of a head", part == VKATTN_CACHE_KEYS ? sizes.key_width : sizes.value_width, tokens.width);
    require(present(positions.cu_seqlens) || tokens.new_len <= sizes.capacity, "cache: capacity ", sizes.capacity,
            ", expected at least the ", tokens.new_len, " tokens of query");
    return {{},
            cache.part(part),
            cache.block_table(),
            cache.is_rotated(part),
            cache.scales_of(part),
            cache.makes_scales(part)};
}

} // namespace

CacheTensors checked_cache(const LayerCall &call, vkattn_cache_part part, const CacheTokens &tokens,
                           const Positions &positions) {
    if (const Cache *object = call.object) return object_part(*object, part, tokens, positions);
    const bool keys = part == VKATTN_CACHE_KEYS;
    const vkattn_role past_role = keys ? VKATTN_ROLE_PAST_KEY : VKATTN_ROLE_PAST_VALUE;
    const vkattn_role present_role = keys ? VKATTN_ROLE_PRESENT_KEY : VKATTN_ROLE_PRESENT_VALUE;
    CacheTensors cache;
    cache.past = checked_cache_tensor(keys ? call.past_key : call.past_value, past_role, positions.sequences,
                                      tokens.heads, positions.offset, tokens.width);
    cache.present =
        checked_cache_tensor(keys ? call.present_key : call.present_value, present_role, positions.sequences,
                             tokens.heads, positions.offset + tokens.new_len, tokens.width);
    if (present(cache.present)) require_no_overlap(cache.present.tensor, role_name(present_role));
    return cache;
}

namespace {

// Fails where tensors of a cache are given: a cache object has its own, and packed tokens have none.
void require_no_cache_tensors(const LayerCall &call, const char *beside) {
    for (const vkattn_tensor *tensor : {&call.past_key, &call.past_value, &call.present_key, &call.present_value})
        require(!present(*tensor), "past_key, past_value, present_key, present_value: given, expected none with ",
                beside);
    require(!present(call.key) && !present(call.value), "key, value: given, expected none with ", beside);
}

uint32_t past_tokens(const LayerCall &call) {
    require(call.past_len <= kLargestSize, "past_len: ", call.past_len, ", expected at most 2^29");
    if (!present(call.past_key)) {
        require(call.past_len == 0 || present(call.present_key), "past_len: ", call.past_len,
                " without past_key or present_key, expected a cache");
        return call.past_len;
    }
    require(call.past_key.rank == 3 || call.past_key.rank == 4, "past_key: rank ", call.past_key.rank,
            ", expected 3 or 4");
    const uint64_t len = call.past_key.shape[call.past_key.rank - 2];
    require(len <= kLargestSize, "past_key: ", len, " tokens, expected at most 2^29");
    require(call.past_len == 0 || call.past_len == len, "past_len: ", call.past_len, ", expected ", len,
            ", the length of past_key");
    return static_cast<uint32_t>(len);
}

} // namespace

Positions checked_sequences(const LayerCall &call, const vkattn_tensor &query) {
    Positions positions;
    positions.sequences = static_cast<uint32_t>(query.shape[0]);
    positions.longest = static_cast<uint32_t>(query.shape[1]);
    if (!present(call.cu_seqlens)) return positions;
    require(query.shape[0] == 1, "query: shape ", shape_text(query), ", expected [1,total,", query.shape[2],
            "] with cu_seqlens");
    require_no_cache_tensors(call, "cu_seqlens");
    const vkattn_tensor rows = contiguous(query.type, {1, 1, query.shape[1], query.shape[2]});
    positions.cu_seqlens =
        role_view(checked_cu_seqlens(call.cu_seqlens, "cu_seqlens", rows, "query"), VKATTN_ROLE_CU_SEQLENS_Q);
    positions.sequences = sequences_of(positions.cu_seqlens.tensor);
    positions.longest = longest_sequence(call.max_seqlen, "max_seqlen", rows);
    return positions;
}

namespace {

// The call's positions [S,B,L] of the tokens of query [B,L,width], or an absent view.
View checked_token_positions(const Layer &layer, const LayerCall &call, const vkattn_tensor &query) {
    if (!present(call.positions)) return {};
    const vkattn_tensor positions = normalised(call.positions, "positions");
    const uint64_t streams = position_streams(layer.config());
    const uint64_t expected[] = {streams, query.shape[0], query.shape[1]};
    require(positions.type == VKATTN_TYPE_I32 && positions.rank == 3 && is_contiguous(positions) &&
                std::equal(expected, expected + 3, positions.shape),
            "positions: type ", type_name(positions.type), ", shape ", shape_text(positions),
            ", expected contiguous I32 [", streams, ",", query.shape[0], ",", query.shape[1], "]");
    require(!present(call.key) && !present(call.value), "key, value: given, expected none with positions");
    return role_view(positions, VKATTN_ROLE_POSITIONS);
}

} // namespace

Positions checked_positions(const Layer &layer, const LayerCall &call, const vkattn_tensor &query) {
    Positions positions = checked_sequences(call, query);
    positions.of_tokens = checked_token_positions(layer, call, query);
    if (call.object == nullptr) {
        positions.offset = past_tokens(call);
        return positions;
    }
    require_no_cache_tensors(call, "cache");
    require(call.past_len == 0, "past_len: ", call.past_len, ", expected 0 with cache, which has lengths of its own");
    positions.past_lengths = call.object->lengths();
    return positions;
}

CachedRows add_past_rows(PlanBuilder &builder, const CacheTensors &cache, const View &fresh, const Positions &positions,
                         const Rotation &rotation, const RmsNorm &norm, uint32_t rotated_from) {
    const vkattn_tensor &tensor = fresh.tensor;
    if (!present(cache.past) && !present(cache.present)) {
        if (!present(rotation.frequencies) && !present(norm.weight)) return {fresh, {}};
        View moved = fresh; // where they are
        if (present(rotation.frequencies))
            moved = workspace_parts(builder, tensor.type, tensor.shape[0], tensor.shape[2], tensor.shape[3],
                                    {&tensor.shape[1], 1})
                        .front();
        return {moved, rotated_rows(fresh, moved, rotation, positions, rotated_from, norm)};
    }
    const View all =
        present(cache.present)
            ? cache.present
            : workspace_view(builder, tensor.type,
                             {tensor.shape[0], tensor.shape[1], positions.offset + tensor.shape[2], tensor.shape[3]});
    // the caller's barrier after it: the last old and the first new 16-bit value may share a word
    if (present(cache.past)) add_rows(builder, {.source = cache.past, .target = all});
    MovedRows rows = rows_at(fresh, all, rotation, positions, rotated_from, norm);
    rows.block_table = cache.block_table;
    rows.hadamard = cache.rotated ? hadamard_block(tensor.shape[3]) : 0;
    rows.target_scales = cache.scales;
    rows.makes_scales = cache.makes_scales;
    return {all, rows};
}

void add_new_rows(PlanBuilder &builder, std::initializer_list<MovedRows> parts) {
    std::vector<MovedRows> given;
    for (const MovedRows &rows : parts)
        if (present(rows.source)) given.push_back(rows);
    add_rows(builder, given);
}

void add_count(PlanBuilder &builder, const LayerCall &call) {
    if (call.object == nullptr) return;
    const vkattn_tensor query = normalised(call.query, "query");
    add_count(builder, *call.object, checked_sequences(call, query), static_cast<uint32_t>(query.shape[1]));
}

} // namespace vkattn
