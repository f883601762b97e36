#include "tools/checkpoints/rope_config.hpp"

#include "tools/io/input_error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace vkattn::tools {
namespace {

// A key that is not here could change the embedding.
constexpr std::array<std::string_view, 19> kKnownKeys{"type",
                                                      "rope_type",
                                                      "rope_theta",
                                                      "partial_rotary_factor",
                                                      "original_max_position_embeddings",
                                                      "factor",
                                                      "beta_fast",
                                                      "beta_slow",
                                                      "low_freq_factor",
                                                      "max_position_embeddings",
                                                      "mscale",
                                                      "finetuned",
                                                      "truncate",
                                                      "high_freq_factor",
                                                      "attention_factor",
                                                      "mscale_all_dim",
                                                      "attn_factor",
                                                      "short_factor",
                                                      "long_factor"};

void check_keys(const ModelKeys &rope) {
    std::string unknown;
    for (const auto &[key, value] : rope.object().items())
        if (!value.is_null() && std::ranges::find(kKnownKeys, key) == kKnownKeys.end())
            unknown += (unknown.empty() ? "" : ", ") + quote_name(key);
    if (!unknown.empty())
        rope.fail("the rotary embedding has unknown keys " + unknown +
                  ", expected those of the scalings linear, llama3, yarn and longrope");
}

// Sets how much of a head is rotated, where the keys say it.
void read_part_of_head(const ModelKeys &keys, vkattn_layer_config &layer) {
    if (!keys.has("partial_rotary_factor")) return;
    layer.rotary_dim = 0;
    if (keys.positive("partial_rotary_factor", 1.0F) == 1.0F) return;
    const double part = keys.find("partial_rotary_factor")->get<double>();
    if (layer.kind == VKATTN_LAYER_MLA)
        keys.fail_value("partial_rotary_factor", "1: of latent attention qk_rope_head_dim says what is rotated");
    layer.rotary_dim = static_cast<std::uint32_t>(std::min(part, 1.0) * layer.head_dim);
    if (part > 1.0 || layer.rotary_dim == 0 || layer.rotary_dim % 2 != 0)
        keys.fail_value("partial_rotary_factor",
                        "at most 1, and an even number of a head's " + std::to_string(layer.head_dim) + " elements");
}

// Elements of a head that are rotated.
std::uint32_t rotated_elements(const vkattn_layer_config &layer) {
    if (layer.kind == VKATTN_LAYER_MLA) return layer.qk_rope_head_dim;
    return layer.rotary_dim != 0 ? layer.rotary_dim : layer.head_dim;
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
    double attention_factor =
        is_ratio ? yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim) : yarn_mscale(factor, 1.0);
    // The key of YaRN's own code, which multiplies by it; DeepSeek-R1-0528-Qwen3-8B has it.
    attention_factor *= static_cast<double>(rope.positive("attn_factor", 1.0F));
    scaling.attention_factor = rope.positive("attention_factor", static_cast<float>(attention_factor));
    if (!is_latent || all_dim == 0.0) return;
    const double softmax_mscale = yarn_mscale(factor, all_dim);
    const double head_dim = static_cast<double>(layer.qk_nope_head_dim) + static_cast<double>(layer.qk_rope_head_dim);
    layer.scale = static_cast<float>(softmax_mscale * softmax_mscale / std::sqrt(head_dim));
}

// One positive number for each pair of elements.
std::vector<float> read_factors(const ModelKeys &rope, const std::string &key, std::size_t pairs) {
    const std::string expected = std::to_string(pairs) + " numbers above 0, one for each pair of a head's elements";
    const nlohmann::json *list = rope.find(key);
    if (list == nullptr) rope.fail("key " + quote_name(key) + " is missing, expected " + expected);
    if (!list->is_array() || list->size() != pairs) rope.fail_value(key, expected);
    std::vector<float> factors;
    for (const nlohmann::json &each : *list) {
        const float factor = each.is_number() ? each.get<float>() : 0.0F;
        if (!std::isfinite(factor) || factor <= 0.0F) rope.fail_value(key, expected);
        factors.push_back(factor);
    }
    return factors;
}

// Phi-3's configs keep the length of training outside rope_scaling, and leave the factor out.
RopeFactors read_longrope(const ModelKeys &keys, const ModelKeys &rope, const RopeUse &use,
                          vkattn_layer_config &layer) {
    vkattn_rope_scaling &scaling = layer.rope_scaling;
    const std::string length_key = "original_max_position_embeddings";
    scaling.kind = VKATTN_ROPE_LONGROPE;
    scaling.original_max_position = rope.has(length_key) ? rope.size(length_key) : keys.size(length_key);
    scaling.factor = rope.has("factor") ? rope.positive("factor")
                                        : static_cast<float>(keys.size("max_position_embeddings")) /
                                              static_cast<float>(scaling.original_max_position);
    if (rope.has("attention_factor")) scaling.attention_factor = rope.positive("attention_factor");
    const bool is_long = use.sequence_len > scaling.original_max_position;
    auto factors = std::make_shared<const std::vector<float>>(
        read_factors(rope, is_long ? "long_factor" : "short_factor", rotated_elements(layer) / 2));
    scaling.factors = factors->data();
    scaling.factor_count = static_cast<std::uint32_t>(factors->size());
    return factors;
}

RopeFactors read_scaling(const ModelKeys &keys, const ModelKeys &rope, const RopeUse &use, vkattn_layer_config &layer) {
    check_keys(rope);
    vkattn_rope_scaling &scaling = layer.rope_scaling;
    const std::string key = rope.has("rope_type") ? "rope_type" : "type";
    const std::string kind = rope.text(key, "default");
    if (rope.has("attn_factor") && kind != "yarn") rope.fail_value("attn_factor", "it with yarn alone");
    if (kind == "default") return nullptr;
    if (kind == "longrope" || kind == "su") return read_longrope(keys, rope, use, layer); // su: its first name
    if (kind != "linear" && kind != "llama3" && kind != "yarn")
        rope.fail_value(key, "linear, llama3, yarn or longrope: other scalings are not supported");
    scaling.factor = rope.positive("factor");
    if (kind == "linear") {
        scaling.kind = VKATTN_ROPE_LINEAR;
        return nullptr;
    }
    scaling.original_max_position = rope.has("original_max_position_embeddings")
                                        ? rope.size("original_max_position_embeddings")
                                        : keys.size("max_position_embeddings");
    if (kind == "yarn") {
        scaling.kind = VKATTN_ROPE_YARN;
        read_yarn(rope, layer);
        return nullptr;
    }
    scaling.kind = VKATTN_ROPE_LLAMA3;
    scaling.low_freq_factor = rope.positive("low_freq_factor");
    scaling.high_freq_factor = rope.positive("high_freq_factor");
    return nullptr;
}

// Newer files keep all of it in rope_parameters, some of them for each kind of layer apart.
RopeFactors read_parameters(const ModelKeys &keys, const ModelKeys &parameters, float theta, const RopeUse &use,
                            vkattn_layer_config &layer) {
    const bool is_by_layer = parameters.has("full_attention") || parameters.has("sliding_attention");
    const std::string kind = use.has_window ? "sliding_attention" : "full_attention";
    const std::optional<ModelKeys> of_layer = is_by_layer ? parameters.inner(kind) : parameters;
    if (!of_layer) parameters.fail("key 'rope_parameters." + kind + "' is missing, expected an object");
    read_part_of_head(*of_layer, layer);
    layer.rope_theta = of_layer->positive("rope_theta", theta);
    return read_scaling(keys, *of_layer, use, layer);
}

} // namespace

RopeFactors read_rope(const ModelKeys &keys, const RopeDefaults &defaults, const RopeUse &use,
                      vkattn_layer_config &layer) {
    read_part_of_head(keys, layer);
    const bool has_own = use.has_window && defaults.window_theta > 0.0F;
    layer.rope_theta = has_own ? keys.positive("rope_local_base_freq", defaults.window_theta)
                               : keys.positive("rope_theta", defaults.theta);
    if (const std::optional<ModelKeys> parameters = keys.inner("rope_parameters"))
        return read_parameters(keys, *parameters, layer.rope_theta, use, layer);
    const std::optional<ModelKeys> scaling = keys.inner("rope_scaling");
    if (scaling) read_part_of_head(*scaling, layer);
    return scaling && !has_own ? read_scaling(keys, *scaling, use, layer) : nullptr;
}

} // namespace vkattn::tools
