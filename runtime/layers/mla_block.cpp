#include "runtime/layers/mla_block.hpp"

#include "runtime/layers/mla.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

constexpr float kEpsilon = 1e-6f;

uint64_t hidden_width(const vkattn_layer_config &config) { return uint64_t{config.embed_dim} * config.mlp_ratio; }

} // namespace

vkattn_layer_config checked_mla_block_config(const vkattn_layer_config &config) {
    check_size("mlp_ratio", config.mlp_ratio);
    return checked_mla_config(config);
}

std::vector<WeightSpec> mla_block_weights(const vkattn_layer_config &config) {
    std::vector<WeightSpec> specs;
    add_mla_weights(specs, config, "attention.");
    add_linear_specs(specs, "mlp.fc1", hidden_width(config), config.embed_dim);
    add_linear_specs(specs, "mlp.fc2", config.embed_dim, hidden_width(config));
    specs.push_back({"norm1.weight", {config.embed_dim}});
    specs.push_back({"norm2.weight", {config.embed_dim}});
    return specs;
}

void plan_mla_block(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const vkattn_layer_config &config = layer.config();
    const View input =
        role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, config.embed_dim), VKATTN_ROLE_QUERY);
    const uint64_t batch = input.tensor.shape[0], len = input.tensor.shape[1];
    const View output = role_view(checked_output(call, batch, len, config.embed_dim), VKATTN_ROLE_OUTPUT);
    const vkattn_type type = workspace_type(builder, call, input);
    const View attended = workspace_view(builder, hidden_type(builder, input), {batch, len, config.embed_dim});
    const View hidden = workspace_view(builder, type, {batch, len, hidden_width(config)});
    const auto norm = [&](const char *weight) {
        return RmsNorm{layer.weight(weight), norm_epsilon_of(config, kEpsilon)};
    };

    add_mla(builder, layer, call, "attention.", input, norm("norm1.weight"), attended, input);
    builder.barrier();
    LinearEpilogue gelu;
    gelu.activation = VKATTN_ACTIVATION_GELU;
    const View fc1 = layer.weight("mlp.fc1.weight");
    add_projection(builder, layer, "mlp.fc1", normalise_for(builder, attended, norm("norm2.weight"), type, {&fc1, 1}),
                   hidden, gelu);
    builder.barrier();
    LinearEpilogue add;
    add.residual = attended;
    add_projection(builder, layer, "mlp.fc2", hidden, output, add);
}

} // namespace vkattn
