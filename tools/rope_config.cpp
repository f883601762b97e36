#include "rope_config.hpp"

#include "input_error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace vkattn::tools {
namespace {

// A key that is not here could change the embedding.
constexpr std::array<std::string_view, 16> kKnownKeys{
    "type",          "rope_type", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings",
    "factor",        "beta_fast", "beta_slow",  "low_freq_factor",       "max_position_embeddings",
    "mscale",        "finetuned", "truncate",   "high_freq_factor",      "attention_factor",
    "mscale_all_dim"};

void check_keys(const ModelKeys &rope) {
    std::string unknown;
    for (const auto &[key, value] : rope.object().items())
        if (!value.is_null() && std::ranges::find(kKnownKeys, key) == kKnownKeys.end())
            unknown += (unknown.empty() ? "" : ", ") + quote_name(key);
    if (!unknown.empty())
        rope.fail("the rotary embedding has unknown keys " + unknown +
                  ", expected those of the scalings linear, llama3 and yarn");
}

void check_whole_head(const ModelKeys &keys) {
    if (keys.positive("partial_rotary_factor", 1.0F) != 1.0F)
        keys.fail_value("partial_rotary_factor", "1: a rotary embedding of a part of the head is not supported");
}

// How much YaRN sharpens the softmax (section 3.4 of the paper, with DeepSeek's weight m).
double yarn_mscale(double factor, double weight) { return factor > 1.0 ? 0.1 * weight * std::log(factor) + 1.0 : 1.0; }

double mscale_of(const ModelKeys &rope, const std::string &key, float otherwise) {
    const nlohmann::json *value = rope.find(key);
    const bool is_zero = value != nullptr && value->is_number() && value->get<double>() == 0.0;
    return is_zero ? 0.0 : static_cast<double>(rope.positive(key, otherwise));
}

void read_yarn(const ModelKeys &rope, vkattn_layer_config &layer) {
    vkattn_rope_scaling &scaling = layer.rope_scaling;
    if (!rope.flag("truncate", true))
        rope.fail_value("truncate", "true: a ramp of YaRN between pairs is not supported");
    scaling.beta_fast = rope.positive("beta_fast", 32.0F);
    scaling.beta_slow = rope.positive("beta_slow", 1.0F);
    const bool is_latent = layer.kind == VKATTN_LAYER_MLA;
    const auto factor = static_cast<double>(scaling.factor);
    const double mscale = mscale_of(rope, "mscale", is_latent ? 1.0F : 0.0F);
    const double all_dim = mscale_of(rope, "mscale_all_dim", 0.0F);
    const bool is_ratio = is_latent || (mscale != 0.0 && all_dim != 0.0);
    const double attention_factor =
        is_ratio ? yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim) : yarn_mscale(factor, 1.0);
    scaling.attention_factor = rope.positive("attention_factor", static_cast<float>(attention_factor));
    if (!is_latent || all_dim == 0.0) return;
    const double softmax_mscale = yarn_mscale(factor, all_dim);
    const double head_dim = static_cast<double>(layer.qk_nope_head_dim) + static_cast<double>(layer.qk_rope_head_dim);
    layer.scale = static_cast<float>(softmax_mscale * softmax_mscale / std::sqrt(head_dim));
}

void read_scaling(const ModelKeys &keys, const ModelKeys &rope, vkattn_layer_config &layer) {
    check_keys(rope);
    vkattn_rope_scaling &scaling = layer.rope_scaling;
    const std::string key = rope.has("rope_type") ? "rope_type" : "type";
    const std::string kind = rope.text(key, "default");
    if (kind == "default") return;
    if (kind != "linear" && kind != "llama3" && kind != "yarn")
        rope.fail_value(key, "linear, llama3 or yarn: other scalings are not supported");
    scaling.factor = rope.positive("factor");
    if (kind == "linear") {
        scaling.kind = VKATTN_ROPE_LINEAR;
        return;
    }
    scaling.original_max_position = rope.has("original_max_position_embeddings")
                                        ? rope.size("original_max_position_embeddings")
                                        : keys.size("max_position_embeddings");
    if (kind == "yarn") {
        scaling.kind = VKATTN_ROPE_YARN;
        read_yarn(rope, layer);
        return;
    }
    scaling.kind = VKATTN_ROPE_LLAMA3;
    scaling.low_freq_factor = rope.positive("low_freq_factor");
    scaling.high_freq_factor = rope.positive("high_freq_factor");
}

// Newer files keep all of it in rope_parameters, some of them for each kind of layer apart.
void read_parameters(const ModelKeys &keys, const ModelKeys &parameters, float theta, bool has_window,
                     vkattn_layer_config &layer) {
    const bool is_by_layer = parameters.has("full_attention") || parameters.has("sliding_attention");
    const std::string kind = has_window ? "sliding_attention" : "full_attention";
    const std::optional<ModelKeys> of_layer = is_by_layer ? parameters.inner(kind) : parameters;
    if (!of_layer) parameters.fail("key 'rope_parameters." + kind + "' is missing, expected an object");
    check_whole_head(*of_layer);
    layer.rope_theta = of_layer->positive("rope_theta", theta);
    read_scaling(keys, *of_layer, layer);
}

} // namespace

void read_rope(const ModelKeys &keys, const RopeDefaults &defaults, bool has_window, vkattn_layer_config &layer) {
    check_whole_head(keys);
    const bool has_own = has_window && defaults.window_theta > 0.0F;
    layer.rope_theta = has_own ? keys.positive("rope_local_base_freq", defaults.window_theta)
                               : keys.positive("rope_theta", defaults.theta);
    if (const std::optional<ModelKeys> parameters = keys.inner("rope_parameters"))
        return read_parameters(keys, *parameters, layer.rope_theta, has_window, layer);
    const std::optional<ModelKeys> scaling = keys.inner("rope_scaling");
    if (scaling && !has_own) read_scaling(keys, *scaling, layer);
}

} // namespace vkattn::tools
