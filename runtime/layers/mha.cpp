#include "runtime/layers/mha.hpp"

#include "runtime/error.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/kv_append.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/ops/rope.hpp"
#include "runtime/tensor.hpp"

#include <algorithm>

namespace vkattn {
namespace {

// A call with its sizes read and its tensors normalised.
struct MhaCall {
    uint64_t batch, q_len, new_len, past_len;
    vkattn_tensor query, key, value, output;
    vkattn_tensor past_key, past_value, present_key, present_value;
    bool self_attention;
    bool cached() const { return past_len > 0 || present(present_key); }
};

vkattn_tensor checked_tokens(const vkattn_tensor &given, const char *name, uint64_t batch, uint64_t len, uint64_t width) {
    require(present(given), name, ": absent, expected [B,L,", width, "]");
    const vkattn_tensor tensor = normalised(given, name);
    require(tensor.type == VKATTN_TYPE_F32 || tensor.type == VKATTN_TYPE_F16 || tensor.type == VKATTN_TYPE_BF16, name,
            ": type ", type_name(tensor.type), ", expected F32, F16 or BF16");
    require(tensor.rank == 3 && tensor.shape[2] == width && (batch == 0 || tensor.shape[0] == batch) &&
                (len == 0 || tensor.shape[1] == len),
            name, ": shape ", shape_text(tensor), ", expected [", batch == 0 ? std::string("B") : std::to_string(batch), ",",
            len == 0 ? std::string("L") : std::to_string(len), ",", width, "]");
    require(width == 1 || tensor.strides[2] == 1, name, ": last stride ", tensor.strides[2], ", expected 1");
    return tensor;
}

vkattn_tensor checked_cache(const vkattn_tensor &given, const char *name, const vkattn_layer_config &config, uint64_t batch,
                            uint64_t len) {
    const vkattn_tensor tensor = normalised(given, name);
    if (!present(tensor)) return tensor;
    require(tensor.type == VKATTN_TYPE_F32 || tensor.type == VKATTN_TYPE_F16 || tensor.type == VKATTN_TYPE_BF16, name,
            ": type ", type_name(tensor.type), ", expected F32, F16 or BF16");
    const uint64_t expected[4] = {batch, config.num_kv_heads, len, config.head_dim};
    require(tensor.rank == 4 && std::equal(expected, expected + 4, tensor.shape), name, ": shape ", shape_text(tensor),
            ", expected [", batch, ",", config.num_kv_heads, ",", len, ",", config.head_dim, "]");
    return tensor;
}

void check_caches(const vkattn_layer_call &call, const vkattn_layer_config &config, MhaCall &checked) {
    require(present(call.past_key) == present(call.past_value), "past_key, past_value: one is absent, expected both or neither");
    require(present(call.present_key) == present(call.present_value),
            "present_key, present_value: one is absent, expected both or neither");
    checked.past_len = call.past_len;
    if (present(call.past_key)) {
        const uint64_t len = call.past_key.rank == 4 ? call.past_key.shape[2] : 0;
        require(call.past_len == 0 || call.past_len == len, "past_len: ", call.past_len, ", expected ", len,
                ", the length of past_key");
        checked.past_len = len;
        checked.past_key = checked_cache(call.past_key, "past_key", config, checked.batch, len);
        checked.past_value = checked_cache(call.past_value, "past_value", config, checked.batch, len);
    } else {
        require(call.past_len == 0 || present(call.present_key), "past_len: ", call.past_len,
                " without past_key or present_key, expected a cache");
    }
    const uint64_t total = checked.past_len + checked.new_len;
    checked.present_key = checked_cache(call.present_key, "present_key", config, checked.batch, total);
    checked.present_value = checked_cache(call.present_value, "present_value", config, checked.batch, total);
    require(!present(checked.present_key) || (!overlaps_itself(checked.present_key) && !overlaps_itself(checked.present_value)),
            "present_key, present_value: strides make elements overlap, expected each element to have its own place");
}

MhaCall check_call(const vkattn_layer_call &call, const vkattn_layer_config &config) {
    MhaCall checked{};
    checked.query = checked_tokens(call.query, "query", 0, 0, config.embed_dim);
    checked.batch = checked.query.shape[0];
    checked.q_len = checked.query.shape[1];
    checked.output = checked_tokens(call.output, "output", checked.batch, checked.q_len, config.embed_dim);
    require(!overlaps_itself(checked.output), "output: strides make elements overlap, expected each element to have its own place");
    require(present(call.key) == present(call.value), "key, value: one is absent, expected both or neither");
    checked.self_attention = !present(call.key);
    checked.key = checked.self_attention ? checked.query : checked_tokens(call.key, "key", checked.batch, 0, config.embed_dim);
    checked.new_len = checked.key.shape[1];
    checked.value = checked.self_attention
                        ? checked.query
                        : checked_tokens(call.value, "value", checked.batch, checked.new_len, config.embed_dim);
    check_caches(call, config, checked);
    return checked;
}

View role_view(const vkattn_tensor &tensor, vkattn_role role) {
    View view{tensor, {}};
    view.source.role = role;
    return view;
}

View workspace_view(Plan &plan, std::initializer_list<uint64_t> shape) {
    View view{contiguous(VKATTN_TYPE_F32, shape), {}};
    view.source = plan.reserve_workspace(extent_bytes(view.tensor));
    return view;
}

// The first `len` tokens of a cache.
View tokens_of(View cache, uint64_t len) {
    cache.tensor.shape[2] = len;
    return cache;
}

void add_projection(Plan &plan, const Layer &layer, const std::string &name, const View &input, const View &output) {
    add_linear(plan, input, layer.weight(name + ".weight"), layer.weight(name + ".bias"), output);
}

struct Projected {
    View query, key, value; // [B,H,L,D] F32 in the workspace
};

Projected add_projections(Plan &plan, const Layer &layer, const MhaCall &call) {
    const vkattn_layer_config &config = layer.config();
    const auto [key_role, value_role] = call.self_attention
                                            ? std::pair(VKATTN_ROLE_QUERY, VKATTN_ROLE_QUERY)
                                            : std::pair(VKATTN_ROLE_KEY, VKATTN_ROLE_VALUE);
    Projected projected;
    projected.query = workspace_view(plan, {call.batch, config.num_heads, call.q_len, config.head_dim});
    projected.key = workspace_view(plan, {call.batch, config.num_kv_heads, call.new_len, config.head_dim});
    projected.value = workspace_view(plan, {call.batch, config.num_kv_heads, call.new_len, config.head_dim});
    add_projection(plan, layer, "q_proj", role_view(call.query, VKATTN_ROLE_QUERY), projected.query);
    add_projection(plan, layer, "k_proj", role_view(call.key, key_role), projected.key);
    add_projection(plan, layer, "v_proj", role_view(call.value, value_role), projected.value);
    if (config.rope_theta > 0) {
        plan.barrier();
        const auto past = static_cast<uint32_t>(call.past_len);
        add_rope(plan, projected.query, layer.rope_frequencies(), config.rope_interleaved != 0, past, {});
        add_rope(plan, projected.key, layer.rope_frequencies(), config.rope_interleaved != 0, past, {});
    }
    return projected;
}

// Brings past and new keys (or values) together in the present cache, or in the workspace where none is asked for.
View add_cache(Plan &plan, const vkattn_layer_config &config, const MhaCall &call, const View &past, const View &fresh,
               const View &present_cache) {
    const uint64_t total = call.past_len + call.new_len;
    const View cache = present(present_cache)
                           ? present_cache
                           : workspace_view(plan, {call.batch, config.num_kv_heads, total, config.head_dim});
    if (present(past)) add_kv_append(plan, past, tokens_of(cache, call.past_len), 0, {});
    add_kv_append(plan, fresh, cache, static_cast<uint32_t>(call.past_len), {});
    return cache;
}

void add_core(Plan &plan, const Layer &layer, const vkattn_layer_call &call, const Projected &projected, const View &heads) {
    vkattn_attention_desc desc{};
    desc.query = projected.query.tensor;
    desc.key = projected.key.tensor;
    desc.value = projected.value.tensor;
    desc.output = heads.tensor;
    desc.attn_mask = call.attn_mask;
    desc.key_padding_mask = call.key_padding_mask;
    desc.key_lengths = call.key_lengths;
    desc.attn_weights = call.attn_weights;
    desc.mask_flags = call.mask_flags;
    desc.causal_alignment = call.causal_alignment;
    desc.window_left = call.window_left;
    desc.window_right = call.window_right;
    desc.past_len = present(call.past_key) ? static_cast<uint32_t>(call.past_key.shape[2]) : call.past_len;
    desc.kv_head_mapping = layer.config().kv_head_mapping;
    desc.kernel = call.kernel;
    AttentionSources sources = attention_roles();
    sources[BINDING_QUERY] = projected.query.source;
    sources[BINDING_KEY] = projected.key.source;
    sources[BINDING_VALUE] = projected.value.source;
    sources[BINDING_OUTPUT] = heads.source;
    add_attention(plan, check_attention(desc), sources);
}

} // namespace

vkattn_layer_config checked_mha_config(const vkattn_layer_config &config) {
    vkattn_layer_config checked = config;
    require(config.embed_dim >= 1, "embed_dim: 0, expected at least 1");
    require(config.num_heads >= 1, "num_heads: 0, expected at least 1");
    if (checked.num_kv_heads == 0) checked.num_kv_heads = config.num_heads;
    require(config.num_heads % checked.num_kv_heads == 0, "num_heads: ", config.num_heads, ", expected a multiple of num_kv_heads ",
            checked.num_kv_heads);
    if (checked.head_dim == 0) {
        require(config.embed_dim % config.num_heads == 0, "embed_dim: ", config.embed_dim, ", expected a multiple of num_heads ",
                config.num_heads, ", or head_dim to be given");
        checked.head_dim = config.embed_dim / config.num_heads;
    }
    require(config.rope_theta >= 0 && config.rope_theta < 1e30f, "rope_theta: ", config.rope_theta,
            ", expected a finite number >= 0, 0 for no rotary embedding");
    require(config.rope_theta == 0 || checked.head_dim % 2 == 0, "head_dim: ", checked.head_dim,
            ", expected an even number for the rotary embedding");
    return checked;
}

std::vector<WeightSpec> mha_weights(const vkattn_layer_config &config) {
    std::vector<WeightSpec> specs;
    const uint64_t query_width = uint64_t{config.num_heads} * config.head_dim;
    const uint64_t kv_width = uint64_t{config.num_kv_heads} * config.head_dim;
    add_linear_specs(specs, "q_proj", query_width, config.embed_dim);
    add_linear_specs(specs, "k_proj", kv_width, config.embed_dim);
    add_linear_specs(specs, "v_proj", kv_width, config.embed_dim);
    add_linear_specs(specs, "out_proj", config.embed_dim, query_width);
    return specs;
}

void plan_mha(Plan &plan, const Layer &layer, const vkattn_layer_call &given) {
    const vkattn_layer_config &config = layer.config();
    const MhaCall call = check_call(given, config);
    Projected projected = add_projections(plan, layer, call);
    plan.barrier();
    if (call.cached()) {
        projected.key = add_cache(plan, config, call, role_view(call.past_key, VKATTN_ROLE_PAST_KEY), projected.key,
                                  role_view(call.present_key, VKATTN_ROLE_PRESENT_KEY));
        projected.value = add_cache(plan, config, call, role_view(call.past_value, VKATTN_ROLE_PAST_VALUE), projected.value,
                                    role_view(call.present_value, VKATTN_ROLE_PRESENT_VALUE));
        plan.barrier();
    }

    // heads side by side in each token: [B,L,H,D] seen as [B,H,L,D], then as [B,L,H*D]
    View heads = workspace_view(plan, {call.batch, call.q_len, config.num_heads, config.head_dim});
    View tokens = heads;
    std::swap(heads.tensor.shape[1], heads.tensor.shape[2]);
    std::swap(heads.tensor.strides[1], heads.tensor.strides[2]);
    tokens.tensor = contiguous(VKATTN_TYPE_F32, {call.batch, call.q_len, uint64_t{config.num_heads} * config.head_dim});
    add_core(plan, layer, given, projected, heads);
    plan.barrier();
    add_projection(plan, layer, "out_proj", tokens, role_view(call.output, VKATTN_ROLE_OUTPUT));
}

} // namespace vkattn
