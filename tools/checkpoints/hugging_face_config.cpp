#include "tools/checkpoints/hugging_face_config.hpp"

#include "tools/checkpoints/model_keys.hpp"
#include "tools/checkpoints/rope_config.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"

#include <array>
#include <cmath>
#include <string_view>

namespace vkattn::tools {
namespace {

constexpr std::uintmax_t kLargestFile = 16U << 20U;
constexpr int kDeepestNesting = 32;

// Which layers see a window of the sequence alone, where the config has no layer_types.
enum class WindowRule { kNone, kEveryLayer, kFromLayer, kEvenLayers, kAllButEveryNth };

struct ModelType {
    std::string_view name;
    TensorNames names;
    WindowRule window = WindowRule::kNone;
    Biases biases = Biases::kByConfig;
    HeadNorms head_norms = HeadNorms::kNone;
    RopeDefaults rope{};
};

using enum TensorNames;

constexpr std::array<ModelType, 20> kModelTypes{{
    {"llama", kSeparate},
    {"mistral", kSeparate, WindowRule::kEveryLayer},
    {"mixtral", kSeparate, WindowRule::kEveryLayer, Biases::kByConfig, HeadNorms::kNone, {.theta = 1e6F}},
    {"qwen2", kSeparate, WindowRule::kFromLayer, Biases::kQueryKeyValue},
    {"qwen2_moe", kSeparate, WindowRule::kFromLayer, Biases::kQueryKeyValue},
    {"qwen3", kSeparate, WindowRule::kFromLayer, Biases::kByConfig, HeadNorms::kAsStored},
    {"qwen3_moe", kSeparate, WindowRule::kFromLayer, Biases::kByConfig, HeadNorms::kAsStored},
    {"gemma", kSeparate},
    {"gemma2", kSeparate, WindowRule::kEvenLayers},
    {"gemma3_text",
     kSeparate,
     WindowRule::kAllButEveryNth,
     Biases::kByConfig,
     HeadNorms::kPlusOne,
     {.theta = 1e6F, .window_theta = 1e4F}},
    {"phi3", kFused, WindowRule::kEveryLayer},
    {"deepseek_v2", kLatent},
    {"deepseek_v3", kLatent},
    {"deepseek_v32", kLatent},
    {"glm_moe_dsa", kLatent},
    {"kimi_k2", kLatent},
    {"bert", kBert, WindowRule::kNone, Biases::kAll},
    {"roberta", kBert, WindowRule::kNone, Biases::kAll},
    {"xlm-roberta", kBert, WindowRule::kNone, Biases::kAll},
    {"camembert", kBert, WindowRule::kNone, Biases::kAll},
}};

const ModelType &find_type(const ModelKeys &keys) {
    const std::string name = keys.text("model_type");
    std::string expected;
    for (const ModelType &type : kModelTypes) {
        if (type.name == name) return type;
        expected += (expected.empty() ? "" : " ") + std::string(type.name);
    }
    keys.fail_value("model_type", "one of " + expected);
}

bool is_gemma(const ModelType &type) { return type.name.starts_with("gemma"); }

// Gemma's configs leave out what the smallest model of its generation has.
void read_heads(const ModelKeys &keys, const ModelType &type, vkattn_layer_config &layer) {
    const bool is_gemma3 = type.name == "gemma3_text";
    layer.kind = VKATTN_LAYER_MHA;
    layer.embed_dim = keys.size("hidden_size");
    layer.num_heads = is_gemma3 ? keys.size("num_attention_heads", 8) : keys.size("num_attention_heads");
    layer.num_kv_heads = keys.size("num_key_value_heads", is_gemma3 ? 4 : layer.num_heads);
    if (is_gemma(type)) layer.head_dim = keys.size("head_dim", 256);
    if (type.name == "qwen3") layer.head_dim = keys.size("head_dim", 128);
    if (layer.head_dim == 0 && keys.has("head_dim")) layer.head_dim = keys.size("head_dim");
    if (layer.head_dim == 0 && layer.embed_dim % layer.num_heads != 0)
        keys.fail_value("hidden_size", "a multiple of num_attention_heads, or head_dim to be given");
    if (layer.head_dim == 0) layer.head_dim = layer.embed_dim / layer.num_heads;
    layer.norm_epsilon = keys.positive("rms_norm_eps", 1e-6F);
}

void read_gemma(const ModelKeys &keys, const ModelType &type, vkattn_layer_config &layer) {
    if (type.name == "gemma") return;
    layer.scale = 1.0F / std::sqrt(keys.positive("query_pre_attn_scalar", 256.0F));
    if (keys.has("attn_logit_softcapping")) layer.softcap = keys.positive("attn_logit_softcapping");
    if (keys.flag("use_bidirectional_attention", false))
        keys.fail_value("use_bidirectional_attention", "false: Gemma as an encoder is not supported");
}

void read_latent(const ModelKeys &keys, vkattn_layer_config &layer) {
    read_latent_sizes(keys, layer);
    layer.rope_interleaved = keys.flag("rope_interleave", true) ? 1 : 0;
    // These models' code gives rms_norm_eps to the norms around the attention, not to the two inside it.
    layer.norm_epsilon = 1e-6F;
}

// Whether the layer takes the keys that a layer before it has chosen, by any of the keys that say so.
bool shares_indexer(const ModelKeys &keys, std::uint32_t layer) {
    if (const nlohmann::json *types = keys.find("indexer_types")) {
        if (!types->is_array() || types->size() <= layer || ((*types)[layer] != "full" && (*types)[layer] != "shared"))
            keys.fail_value("indexer_types", "an array with full or shared for every layer");
        return (*types)[layer] == "shared";
    }
    if (keys.has("index_topk_pattern")) {
        const std::string pattern = keys.text("index_topk_pattern");
        if (pattern.size() <= layer) keys.fail_value("index_topk_pattern", "a letter, F or S, for every layer");
        return pattern[layer] == 'S';
    }
    const std::uint32_t offset = keys.has("index_skip_topk_offset") ? keys.size("index_skip_topk_offset") : 2;
    return layer >= offset && (layer - offset + 1) % keys.size("index_topk_freq", 1) != 0;
}

// DeepSeek-V3.2 and GLM-5, whose indexer rotates pairs (2i, 2i+1).
void read_indexer(const ModelKeys &keys, const ModelType &type, std::uint32_t layer, ModelAttention &attention) {
    if (type.name != "deepseek_v32" && type.name != "glm_moe_dsa") return;
    if (shares_indexer(keys, layer))
        keys.fail("layer " + std::to_string(layer) +
                  " attends the keys that the layer before it has chosen, expected one with an indexer of its own");
    read_indexer_sizes(keys, attention.layer);
    attention.layer.index_rope_interleaved = type.name == "glm_moe_dsa" ? 1 : 0;
}

bool has_window_by_rule(const ModelKeys &keys, WindowRule rule, std::uint32_t layer) {
    switch (rule) {
    case WindowRule::kNone:
        return false;
    case WindowRule::kEveryLayer:
        return true;
    case WindowRule::kFromLayer: {
        const nlohmann::json *first = keys.find("max_window_layers");
        if (first != nullptr && !first->is_number_unsigned())
            keys.fail_value("max_window_layers", "a whole number from 0");
        return layer >= (first != nullptr ? first->get<std::uint64_t>() : 28);
    }
    case WindowRule::kEvenLayers:
        return layer % 2 == 0;
    case WindowRule::kAllButEveryNth: {
        const bool is_private = keys.has("_sliding_window_pattern");
        return (layer + 1) % keys.size(is_private ? "_sliding_window_pattern" : "sliding_window_pattern", 6) != 0;
    }
    }
    return false;
}

bool has_window(const ModelKeys &keys, const ModelType &type, std::uint32_t layer) {
    const nlohmann::json *types = keys.find("layer_types");
    if (types == nullptr) return has_window_by_rule(keys, type.window, layer);
    if (!types->is_array() || types->size() <= layer || !(*types)[layer].is_string())
        keys.fail("key 'layer_types' does not name layer " + std::to_string(layer) +
                  ", expected an array with one string for every layer");
    const std::string kind = (*types)[layer].get<std::string>();
    if (kind != "full_attention" && kind != "sliding_attention")
        keys.fail("key 'layer_types' has " + quote_name(kind) + " for layer " + std::to_string(layer) +
                  ", expected full_attention or sliding_attention: others are not supported");
    return kind == "sliding_attention";
}

// Returns whether the layer is one of those with a window, and sets the window if there is one.
bool read_window(const ModelKeys &keys, const ModelType &type, std::uint32_t layer, MaskConfig &mask) {
    mask.flags = VKATTN_MASK_CAUSAL;
    if (type.window == WindowRule::kNone) return false;
    if (type.window == WindowRule::kFromLayer && !keys.flag("use_sliding_window", false)) return false;
    if (!has_window(keys, type, layer)) return false;
    const bool is_default = is_gemma(type) && !keys.object().contains("sliding_window");
    if (!is_default && !keys.has("sliding_window")) return true;
    // The window of these models counts the query's own position.
    mask.flags |= VKATTN_MASK_WINDOW;
    const std::uint32_t window = keys.size("sliding_window", 4096U);
    if (window > 1U << 30U) keys.fail_value("sliding_window", "at most 2^30");
    mask.window_left = static_cast<std::int32_t>(window) - 1;
    return true;
}

void read_decoder(const ModelKeys &keys, const ModelType &type, std::uint32_t layer, std::uint64_t sequence_len,
                  ModelAttention &attention) {
    const bool sees_window = read_window(keys, type, layer, attention.mask);
    if (type.names == kLatent)
        read_latent(keys, attention.layer);
    else
        read_heads(keys, type, attention.layer);
    if (is_gemma(type)) read_gemma(keys, type, attention.layer);
    read_indexer(keys, type, layer, attention);
    attention.rope_factors = read_rope(keys, type.rope, {sees_window, sequence_len}, attention.layer);
}

void read_encoder(const ModelKeys &keys, const ModelType &type, ModelAttention &attention) {
    read_heads(keys, type, attention.layer);
    if (keys.text("position_embedding_type", "absolute") != "absolute")
        keys.fail_value("position_embedding_type", "absolute: positions inside the attention are not supported");
    if (keys.flag("is_decoder", false)) attention.mask.flags = VKATTN_MASK_CAUSAL;
}

void check_layer(const ModelKeys &keys, std::uint32_t layer) {
    const std::uint32_t layers = keys.size("num_hidden_layers");
    if (layer >= layers)
        throw InputError("--layer " + std::to_string(layer), "the model has " + std::to_string(layers) +
                                                                 " layers, expected 0 to " +
                                                                 std::to_string(layers - 1));
}

ModelKeys read_keys(const std::filesystem::path &config) {
    return ModelKeys(config.string(), "",
                     read_strict_json(config, "the config.json of a model", kLargestFile, kDeepestNesting))
        .language();
}

} // namespace

ModelAttention read_model_attention(const std::filesystem::path &config, std::uint32_t layer,
                                    std::uint64_t sequence_len) {
    const ModelKeys keys = read_keys(config);
    const ModelType &type = find_type(keys);
    check_layer(keys, layer);
    ModelAttention attention{.names = type.names, .biases = type.biases, .head_norms = type.head_norms};
    attention.attention_bias = keys.flag("attention_bias", false);
    if (type.names == kBert)
        read_encoder(keys, type, attention);
    else
        read_decoder(keys, type, layer, sequence_len, attention);
    return attention;
}

} // namespace vkattn::tools
