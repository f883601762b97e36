#include "runtime/layers/mha.hpp"

#include "runtime/layers/mha_backward.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <array>

namespace vkattn {
namespace {

constexpr float kEpsilon = 1e-6f; // of q_norm and k_norm

} // namespace

MhaInputs mha_inputs_of(const LayerCall &call, const View &tokens, uint64_t width) {
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

RmsNorm mha_head_norm(const Layer &layer, const std::string &name) {
    return {layer.weight(name), norm_epsilon_of(layer.config(), kEpsilon)};
}

namespace {

std::array<std::string, 3> projection_names(const std::string &prefix) {
    return {prefix + "q_proj", prefix + "k_proj", prefix + "v_proj"};
}

struct Projected {
    View query, key, value; // [B,H,L,D] in the workspace
};

Projected project_inputs(PlanBuilder &builder, const Layer &layer, const MhaInputs &inputs, const std::string &prefix,
                         vkattn_type type) {
    const std::array<std::string, 3> names = projection_names(prefix);
    const Projection projections[] = {{names[0], inputs.query}, {names[1], inputs.key}, {names[2], inputs.value}};
    const std::vector<View> heads = add_projections(builder, layer, projections, type, layer.config().head_dim);
    return {heads[0], heads[1], heads[2]};
}

// The products of a token that attention takes, and the gate's where the layer has one.
std::vector<View> token_weights(const Layer &layer, const std::string &prefix) {
    std::vector<View> weights = projection_weights(layer, projection_names(prefix));
    const View gate = layer.weight(prefix + "gate_proj.weight");
    if (present(gate)) weights.push_back(gate);
    return weights;
}

// The norm that the call asks for, of self attention.
MhaInputs normalised_inputs(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const std::string &prefix,
                            const MhaInputs &inputs, vkattn_type type) {
    const RmsNorm norm = checked_input_norm(call.norm_weight, call.norm_epsilon, layer.config().embed_dim);
    if (!present(norm.weight)) return inputs;
    require(!present(call.key), "norm: given beside key and value, expected neither of them");
    const ProductInput tokens = normalise_for(builder, inputs.query.tokens, norm, type, token_weights(layer, prefix));
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
    checked.rotary_dim = checked_rotary_dim(config, checked.head_dim);
    return checked;
}

void add_mha_weights(std::vector<WeightSpec> &specs, const vkattn_layer_config &config, const std::string &prefix) {
    const uint64_t query_width = uint64_t{config.num_heads} * config.head_dim;
    const uint64_t kv_width = uint64_t{config.num_kv_heads} * config.head_dim;
    add_linear_specs(specs, prefix + "q_proj", query_width, config.embed_dim);
    add_linear_specs(specs, prefix + "k_proj", kv_width, config.embed_dim);
    add_linear_specs(specs, prefix + "v_proj", kv_width, config.embed_dim);
    specs.push_back({prefix + "gate_proj.weight", {query_width, config.embed_dim}, true, {.times = 1}});
    specs.push_back({prefix + "gate_proj.bias", {query_width}, true, {}, true});
    add_linear_specs(specs, prefix + "out_proj", config.embed_dim, query_width);
    specs.push_back({prefix + "q_norm.weight", {config.head_dim}, true});
    specs.push_back({prefix + "k_norm.weight", {config.head_dim}, true});
}

AttentionSizes mha_attention(const vkattn_layer_config &config) {
    return {.query_heads = config.num_heads, .head_dim = config.head_dim, .v_head_dim = config.head_dim};
}

void add_mha(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const MhaParts &parts) {
    const vkattn_layer_config &config = layer.config();
    const MhaInputs inputs = mha_inputs_of(call, parts.tokens, config.embed_dim);
    require_paired_cache(call);
    const Positions positions = checked_positions(layer, call, inputs.query.tokens.tensor);
    const CacheTokens tokens{config.num_kv_heads, config.head_dim, inputs.new_len()};
    const CacheTensors keys = checked_cache(call, VKATTN_CACHE_KEYS, tokens, positions);
    const CacheTensors values = checked_cache(call, VKATTN_CACHE_VALUES, tokens, positions);

    const vkattn_type type = workspace_type(builder, call, inputs.query.tokens);
    const Heads attended =
        workspace_heads(builder, type, inputs.batch(), inputs.q_len(), config.num_heads, config.head_dim);
    const MhaInputs normed = normalised_inputs(builder, layer, call, parts.prefix, inputs, type);
    const Projected projected = project_inputs(builder, layer, normed, parts.prefix, type);
    builder.barrier();
    const Rotation rotation = layer.rotation();
    const CachedRows query = add_past_rows(builder, {}, projected.query, positions, rotation,
                                           mha_head_norm(layer, parts.prefix + "q_norm.weight"));
    const CachedRows key = add_past_rows(builder, keys, projected.key, positions, rotation,
                                         mha_head_norm(layer, parts.prefix + "k_norm.weight"));
    const CachedRows value = add_past_rows(builder, values, projected.value, positions);
    builder.barrier();
    add_new_rows(builder, {query.new_rows, key.new_rows, value.new_rows});
    CoreAttention core;
    core.query = query.all;
    core.key = key.all;
    core.value = value.all;
    core.block_table = keys.block_table;
    core.positions = positions;
    core.kv_head_mapping = config.kv_head_mapping;
    core.output = attended.heads;
    builder.barrier();
    add_core_attention(builder, layer, call, core);
    builder.barrier();
    add_count(builder, call);
    if (present(layer.weight(parts.prefix + "gate_proj.weight"))) {
        LinearEpilogue gate;
        gate.activation = VKATTN_ACTIVATION_SIGMOID;
        gate.multiplier = attended.tokens;
        add_projection(builder, layer, parts.prefix + "gate_proj", normed.query, attended.tokens, gate);
        builder.barrier();
    }
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
    (present(call.activations) ? add_mha_saving : add_mha)(builder, layer, call, parts);
}

} // namespace vkattn
