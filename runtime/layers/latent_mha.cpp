#include "runtime/layers/latent_mha.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {

vkattn_layer_config checked_latent_mha_config(const vkattn_layer_config &config) {
    check_size("embed_dim", config.embed_dim);
    check_size("num_heads", config.num_heads);
    require(config.embed_dim % config.num_heads == 0, "num_heads: ", config.num_heads,
            ", expected a divisor of embed_dim ", config.embed_dim);
    check_size("latent_dim", config.latent_dim);
    return config;
}

std::vector<WeightSpec> latent_mha_weights(const vkattn_layer_config &config) {
    std::vector<WeightSpec> specs;
    add_linear_specs(specs, "q_proj", uint64_t{config.num_heads} * config.latent_dim, config.embed_dim);
    add_linear_specs(specs, "kv_proj", uint64_t{2} * config.latent_dim, config.embed_dim);
    // each head lifts its own latent with its own rows: together one use of the whole matrix
    add_linear_specs(specs, "up_proj", config.embed_dim, config.latent_dim);
    return specs;
}

AttentionSizes latent_mha_attention(const vkattn_layer_config &config) {
    return {.query_heads = config.num_heads, .head_dim = config.latent_dim, .v_head_dim = config.latent_dim};
}

void plan_latent_mha(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const vkattn_layer_config &config = layer.config();
    const uint64_t width = config.embed_dim, heads = config.num_heads, latent = config.latent_dim,
                   head_dim = width / heads;
    const View query = role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, width), VKATTN_ROLE_QUERY);
    const uint64_t batch = query.tensor.shape[0], q_len = query.tensor.shape[1];
    const Positions positions = checked_sequences(call, query.tensor);
    require(!present(call.value),
            "value: given, expected none for layer latent_mha, whose latents come from key alone");
    require_absent(call.past_key, call.present_key, "past_key, present_key", "latent_mha");
    const View source =
        present(call.key) ? role_view(checked_tokens(call.key, "key", batch, kAnySize, width), VKATTN_ROLE_KEY) : query;
    const View output = role_view(checked_output(call, batch, q_len, width), VKATTN_ROLE_OUTPUT);

    const vkattn_type type = workspace_type(builder, call, query);
    const Projection projections[] = {{"q_proj", query}, {"kv_proj", source}};
    const std::vector<View> projected = add_projections(builder, layer, projections, type, latent);
    builder.barrier();

    CoreAttention core;
    core.query = projected[0];
    core.key = core.value = projected[1]; // a head each
    slice(core.key.tensor, 1, 0, 1);
    slice(core.value.tensor, 1, 1, 1);
    core.output = workspace_heads(builder, type, batch, q_len, heads, latent).heads;
    core.positions = positions;
    add_core_attention(builder, layer, call, core);
    builder.barrier();

    const View weight =
        reshaped(layer.weight("up_proj.weight"), {heads, head_dim, latent}, {head_dim * latent, latent, 1});
    View bias = layer.weight("up_proj.bias");
    if (present(bias)) bias = reshaped(bias, {heads, head_dim}, {head_dim, 1});
    add_latent_up_projection(builder, core.output, weight, bias, heads_of(output, heads));
}

} // namespace vkattn
