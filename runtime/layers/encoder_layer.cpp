#include "runtime/layers/encoder_layer.hpp"

#include "runtime/layers/mha.hpp"
#include "runtime/ops/norm.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

constexpr float kEpsilon = 1e-5f;

void add_layer_norm(PlanBuilder &builder, const Layer &layer, const std::string &name, const View &input,
                    const View &output) {
    add_norm(builder, Norm::kLayer, norm_epsilon_of(layer.config(), kEpsilon),
             {.input = input,
              .weight = layer.weight(name + ".weight"),
              .bias = layer.weight(name + ".bias"),
              .output = output});
}

// type: of the hidden features.
void add_feed_forward(PlanBuilder &builder, const Layer &layer, vkattn_type type, const View &input, const View &output,
                      const View &residual) {
    const vkattn_layer_config &config = layer.config();
    const View hidden = workspace_view(builder, type, {input.tensor.shape[0], input.tensor.shape[1], config.ffn_dim});
    LinearEpilogue activate;
    activate.activation = config.activation;
    add_projection(builder, layer, "ffn.fc1", input, hidden, activate);
    builder.barrier();
    LinearEpilogue add;
    add.residual = residual;
    add_projection(builder, layer, "ffn.fc2", hidden, output, add);
}

} // namespace

vkattn_layer_config checked_encoder_config(const vkattn_layer_config &config) {
    check_size("ffn_dim", config.ffn_dim);
    require(config.activation >= VKATTN_ACTIVATION_NONE && config.activation <= VKATTN_ACTIVATION_SOFTPLUS,
            "activation: ", static_cast<int>(config.activation), ", expected a vkattn_activation");
    return checked_mha_config(config);
}

std::vector<WeightSpec> encoder_weights(const vkattn_layer_config &config) {
    std::vector<WeightSpec> specs;
    add_mha_weights(specs, config, "self_attn.");
    add_linear_specs(specs, "ffn.fc1", config.ffn_dim, config.embed_dim);
    add_linear_specs(specs, "ffn.fc2", config.embed_dim, config.ffn_dim);
    for (const char *norm : {"norm1", "norm2"}) {
        specs.push_back({std::string(norm) + ".weight", {config.embed_dim}});
        specs.push_back({std::string(norm) + ".bias", {config.embed_dim}, true});
    }
    return specs;
}

void plan_encoder(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const uint64_t width = layer.config().embed_dim;
    require_absent(call.key, call.value, "key, value", "encoder_layer");
    const View input = role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, width), VKATTN_ROLE_QUERY);
    const uint64_t batch = input.tensor.shape[0], len = input.tensor.shape[1];
    const View output = role_view(checked_output(call, batch, len, width), VKATTN_ROLE_OUTPUT);
    const vkattn_type type = workspace_type(builder, call, input);
    const vkattn_type own = hidden_type(builder, input);
    const View attended = workspace_view(builder, own, {batch, len, width});
    // what products take, or what is added up
    const View normed = workspace_view(builder, layer.config().norm_first != 0 ? type : own, {batch, len, width});

    MhaParts attention{"self_attn.", input, attended, input};
    if (layer.config().norm_first != 0) {
        add_layer_norm(builder, layer, "norm1", input, normed);
        builder.barrier();
        attention.tokens = normed;
        add_mha(builder, layer, call, attention);
        builder.barrier();
        add_layer_norm(builder, layer, "norm2", attended, normed);
        builder.barrier();
        add_feed_forward(builder, layer, type, normed, output, attended);
        return;
    }
    add_mha(builder, layer, call, attention);
    builder.barrier();
    add_layer_norm(builder, layer, "norm1", attended, attended);
    builder.barrier();
    add_feed_forward(builder, layer, type, attended, normed, attended);
    builder.barrier();
    add_layer_norm(builder, layer, "norm2", normed, output);
}

} // namespace vkattn
