#include "runtime/layers/mha.hpp"

#include "runtime/ops/norm.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

constexpr float kEpsilon = 1e-6f; // of q_norm and k_norm

struct Inputs {
    ProductInput query, key, value; // [B,L,embed_dim]
    uint64_t batch() const { return query.tokens.tensor.shape[0]; }
    uint64_t q_len() const { return query.tokens.tensor.shape[1]; }
    uint64_t new_len() const { return key.tokens.tensor.shape[1]; }
};

Inputs inputs_of(const LayerCall &call, const View &tokens, uint64_t width) {
    if (present(tokens)) return {tokens, tokens, tokens};
    const View query = role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, width), VKATTN_ROLE_QUERY);
    require(present(call.key) == present(call.value), "key, value: one is absent, expected both or neither");
    if (!present(call.key)) return {query, query, query};
    const uint64_t batch = query.tensor.shape[0];
    const View key = role_view(checked_tokens(call.key, "key", batch, kAnySize, width), VKATTN_ROLE_KEY);
    const View value =
        role_view(checked_tokens(call.value, "value", batch, key.tensor.shape[1], width), VKATTN_ROLE_VALUE);
    return {query, key, value};
}

struct Projected {
    View query, key, value; // [B,H,L,D] F32 in the workspace
};

// RMSNorm of every head of [B,H,L,D] in place, where the layer has the weight.
void add_head_norm(PlanBuilder &builder, const Layer &layer, const std::string &weight, const View &heads) {
    if (!present(layer.weight(weight))) return;
    const vkattn_tensor &tensor = heads.tensor;
    const View rows = reshaped(heads, {tensor.shape[0] * tensor.shape[1], tensor.shape[2], tensor.shape[3]},
                               {tensor.strides[1], tensor.strides[2], tensor.strides[3]});
    builder.barrier();
    add_norm(builder, Norm::kRms, epsilon_or(layer.config(), kEpsilon), rows, layer.weight(weight), {}, rows);
}

Projected add_projections(PlanBuilder &builder, const Layer &layer, const Inputs &inputs, const std::string &prefix) {
    const vkattn_layer_config &config = layer.config();
    Projected projected;
    projected.query = workspace_view(builder, {inputs.batch(), config.num_heads, inputs.q_len(), config.head_dim});
    projected.key = workspace_view(builder, {inputs.batch(), config.num_kv_heads, inputs.new_len(), config.head_dim});
    projected.value = workspace_view(builder, {inputs.batch(), config.num_kv_heads, inputs.new_len(), config.head_dim});
    add_projection(builder, layer, prefix + "q_proj", inputs.query, projected.query);
    add_projection(builder, layer, prefix + "k_proj", inputs.key, projected.key);
    add_projection(builder, layer, prefix + "v_proj", inputs.value, projected.value);
    add_head_norm(builder, layer, prefix + "q_norm.weight", projected.query);
    add_head_norm(builder, layer, prefix + "k_norm.weight", projected.key);
    return projected;
}

// The norm that the call asks for, of self attention.
Inputs normalised(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const std::string &prefix,
                  const Inputs &inputs) {
    const InputNorm norm = checked_input_norm(call.next, layer.config().embed_dim);
    if (!present(norm.weight)) return inputs;
    require(!present(call.key), "norm: given beside key and value, expected neither of them");
    const View weights[] = {layer.weight(prefix + "q_proj.weight"), layer.weight(prefix + "k_proj.weight"),
                            layer.weight(prefix + "v_proj.weight")};
    const ProductInput tokens = normalise_for(builder, inputs.query.tokens, norm, weights);
    return {tokens, tokens, tokens};
}

} // namespace

vkattn_layer_config checked_mha_config(const vkattn_layer_config &config) {
    vkattn_layer_config checked = config;
    check_size("embed_dim", config.embed_dim);
    check_size("num_heads", config.num_heads);
    if (checked.num_kv_heads == 0) checked.num_kv_heads = config.num_heads;
    require(config.num_heads % checked.num_kv_heads == 0, "num_heads: ", config.num_heads,
            ", expected a multiple of num_kv_heads ", checked.num_kv_heads);
    if (checked.head_dim == 0) {
        require(config.embed_dim % config.num_heads == 0, "embed_dim: ", config.embed_dim,
                ", expected a multiple of num_heads ", config.num_heads, ", or head_dim to be given");
        checked.head_dim = config.embed_dim / config.num_heads;
    }
    check_size("head_dim", checked.head_dim);
    require(config.rope_theta == 0 || checked.head_dim % 2 == 0, "head_dim: ", checked.head_dim,
            ", expected an even number for the rotary embedding");
    return checked;
}

void add_mha_weights(std::vector<WeightSpec> &specs, const vkattn_layer_config &config, const std::string &prefix) {
    const uint64_t query_width = uint64_t{config.num_heads} * config.head_dim;
    const uint64_t kv_width = uint64_t{config.num_kv_heads} * config.head_dim;
    add_linear_specs(specs, prefix + "q_proj", query_width, config.embed_dim);
    add_linear_specs(specs, prefix + "k_proj", kv_width, config.embed_dim);
    add_linear_specs(specs, prefix + "v_proj", kv_width, config.embed_dim);
    add_linear_specs(specs, prefix + "out_proj", config.embed_dim, query_width);
    specs.push_back({prefix + "q_norm.weight", {config.head_dim}, true});
    specs.push_back({prefix + "k_norm.weight", {config.head_dim}, true});
}

AttentionSizes mha_attention(const vkattn_layer_config &config) {
    return {.query_heads = config.num_heads, .head_dim = config.head_dim, .v_head_dim = config.head_dim};
}

void add_mha(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const MhaParts &parts) {
    const vkattn_layer_config &config = layer.config();
    const Inputs inputs = inputs_of(call, parts.tokens, config.embed_dim);
    require_paired_cache(call);
    const Positions positions = checked_positions(call, inputs.query.tokens.tensor);
    const CacheTokens tokens{config.num_kv_heads, config.head_dim, inputs.new_len()};
    const CacheTensors keys = checked_cache(call, VKATTN_CACHE_KEYS, tokens, positions);
    const CacheTensors values = checked_cache(call, VKATTN_CACHE_VALUES, tokens, positions);

    const Projected projected =
        add_projections(builder, layer, normalised(builder, layer, call, parts.prefix, inputs), parts.prefix);
    const Rotation rotation = layer.rotation();
    builder.barrier();
    if (present(rotation.frequencies)) add_rope(builder, projected.query, projected.query, rotation, positions);
    CoreAttention core;
    core.query = projected.query;
    core.key = add_cache(builder, keys, projected.key, positions, rotation);
    core.value = add_cache(builder, values, projected.value, positions);
    core.block_table = keys.block_table;
    core.positions = positions;
    core.kv_head_mapping = config.kv_head_mapping;
    const Heads attended = workspace_heads(builder, inputs.batch(), inputs.q_len(), config.num_heads, config.head_dim);
    core.output = attended.heads;
    builder.barrier();
    add_core_attention(builder, layer, call, core);
    builder.barrier();
    LinearEpilogue epilogue;
    epilogue.residual = parts.residual;
    add_projection(builder, layer, parts.prefix + "out_proj", attended.tokens, parts.output, epilogue);
}

void plan_mha(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const uint64_t width = layer.config().embed_dim;
    const vkattn_tensor query = checked_tokens(call.query, "query", kAnySize, kAnySize, width);
    MhaParts parts;
    parts.output = role_view(checked_output(call, query.shape[0], query.shape[1], width), VKATTN_ROLE_OUTPUT);
    parts.residual = checked_residual(call, query.shape[0], query.shape[1], width);
    add_mha(builder, layer, call, parts);
}

} // namespace vkattn
