#include "runtime/layers/latent_query.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {

vkattn_layer_config checked_latent_query_config(const vkattn_layer_config &config) {
    check_size("input_dim", config.input_dim);
    check_size("latent_dim", config.latent_dim);
    check_size("num_latents", config.num_latents);
    check_size("num_heads", config.num_heads);
    require(config.latent_dim % config.num_heads == 0, "num_heads: ", config.num_heads,
            ", expected a divisor of latent_dim ", config.latent_dim);
    return config;
}

std::vector<WeightSpec> latent_query_weights(const vkattn_layer_config &config) {
    constexpr WeightUse kOfLatents{.rows = MultipliedRows::kLatents, .times = 1};
    std::vector<WeightSpec> specs;
    specs.push_back({"latents", {config.num_latents, config.latent_dim}});
    add_linear_specs(specs, "q_proj", config.latent_dim, config.latent_dim, kOfLatents);
    add_linear_specs(specs, "k_proj", config.latent_dim, config.input_dim);
    add_linear_specs(specs, "v_proj", config.latent_dim, config.input_dim);
    add_linear_specs(specs, "out_proj", config.latent_dim, config.latent_dim, kOfLatents);
    return specs;
}

AttentionSizes latent_query_attention(const vkattn_layer_config &config) {
    const uint64_t head_dim = config.latent_dim / config.num_heads;
    return {.query_heads = config.num_heads,
            .head_dim = head_dim,
            .v_head_dim = head_dim,
            .latent_queries = config.num_latents};
}

void plan_latent_query(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const vkattn_layer_config &config = layer.config();
    const uint64_t width = config.latent_dim, heads = config.num_heads, count = config.num_latents;
    require_absent(call.key, call.value, "key, value", "latent_query");
    require_absent(call.past_key, call.present_key, "past_key, present_key", "latent_query");
    require(!present(call.cu_seqlens), "cu_seqlens: given, expected none for layer latent_query");
    const View sequence =
        role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, config.input_dim), VKATTN_ROLE_QUERY);
    const uint64_t batch = sequence.tensor.shape[0];
    const View output = role_view(checked_output(call, batch, count, width), VKATTN_ROLE_OUTPUT);

    // the latents are the same for every sequence: projected once, broadcast by stride 0
    const vkattn_type type = workspace_type(builder, call, sequence);
    const uint64_t once = std::min<uint64_t>(batch, 1);
    const Heads query = workspace_heads(builder, type, once, count, heads, width / heads);
    add_projection(builder, layer, "q_proj", reshaped(layer.weight("latents"), {once, count, width}, {0, width, 1}),
                   query.tokens);
    const Projection projections[] = {{"k_proj", sequence}, {"v_proj", sequence}};
    const std::vector<View> projected = add_projections(builder, layer, projections, type, width / heads);
    builder.barrier();

    const Heads attended = workspace_heads(builder, type, batch, count, heads, width / heads);
    CoreAttention core;
    core.query = query.heads;
    core.query.tensor.shape[0] = batch;
    core.query.tensor.strides[0] = 0;
    core.key = projected[0];
    core.value = projected[1];
    core.output = attended.heads;
    add_core_attention(builder, layer, call, core);
    builder.barrier();
    add_projection(builder, layer, "out_proj", attended.tokens, output);
}

} // namespace vkattn
