#include "tools/estimate/config.hpp"

#include "tools/checkpoints/model_keys.hpp"
#include "tools/io/input_error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace vkattn::tools {
namespace {

using Json = nlohmann::json;

// Encoders whose layers are those of BERT: attention and feed-forward with LayerNorm and biases.
constexpr std::array<std::string_view, 8> kBertLike{"bert",      "roberta", "xlm-roberta", "xlm-roberta-xl",
                                                    "camembert", "electra", "vit",         "deit"};
// What models are called that read a sequence as a whole.
constexpr std::array<std::string_view, 4> kEncoderHeads{"ForMaskedLM", "ForMaskedImageModeling",
                                                        "ForImageClassification", "ForCTC"};
// Decoders that are counted as they are.
constexpr std::array<std::string_view, 27> kDecoders{
    "llama",       "mistral",      "mixtral",     "qwen2",       "qwen2_moe",    "qwen3",      "qwen3_moe",
    "gemma",       "gemma2",       "gemma3",      "gemma3_text", "phi",          "phi3",       "deepseek_v2",
    "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2",     "gpt2",         "gpt_neox",   "gpt_bigcode",
    "falcon",      "opt",          "starcoder2",  "qwen3_next",  "qwen3_5_text", "kimi_linear"};
constexpr std::array<std::string_view, 7> kAttending{"full_attention",    "attention", "sliding_attention",
                                                     "chunked_attention", "full",      "global_attention",
                                                     "local_attention"};
constexpr std::array<std::string_view, 9> kNotAttending{
    "linear_attention", "mamba", "mamba2", "recurrent", "conv", "ssm", "rwkv", "mlp", "moe"};
// How keys begin that are about layers which do not attend.
constexpr std::array<std::string_view, 8> kOtherLayers{"mamba",        "ssm_",         "rwkv",      "linear_num_",
                                                       "linear_conv_", "conv_L_cache", "lru_width", "recurrent"};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

// By the names of all families of configurations, the usual one first.
vkattn_layer_config multi_head_config(const ModelKeys &keys) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = keys.size(keys.name_of({"hidden_size", "n_embd"}));
    config.num_heads = keys.size(keys.name_of({"num_attention_heads", "n_head"}));
    config.num_kv_heads =
        keys.size(keys.name_of({"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"}),
                  keys.flag("multi_query", false) ? 1 : config.num_heads);
    config.head_dim = keys.size("head_dim", 0);
    return config;
}

vkattn_layer_config latent_config(const ModelKeys &keys) {
    vkattn_layer_config config{};
    read_latent_sizes(keys, config);
    config.rope_theta = 10000; // DeepSeek's; no cost depends on it, but the layer must have one
    config.rope_interleaved = 1;
    return config;
}

vkattn_type weight_type_of(const ModelKeys &keys) {
    const std::string name = keys.text(keys.name_of({"torch_dtype", "dtype"}), "");
    if (name == "float32") return VKATTN_TYPE_F32;
    if (name == "float16") return VKATTN_TYPE_F16;
    return name == "bfloat16" ? VKATTN_TYPE_BF16 : VKATTN_TYPE_NONE;
}

// The sizes of one BERT layer, which counts the feed-forward too.
vkattn_layer_config encoder_config(const ModelKeys &keys) {
    vkattn_layer_config config = multi_head_config(keys);
    config.kind = VKATTN_LAYER_ENCODER;
    config.ffn_dim = keys.size("intermediate_size");
    config.activation = VKATTN_ACTIVATION_GELU;
    return config;
}

bool is_bert_like(const ModelKeys &keys) {
    return is_one_of(kBertLike, keys.text("model_type", "")) && !keys.flag("is_decoder", false);
}

void refuse_other_encoders(const ModelKeys &keys) {
    const std::string expected = ", expected a decoder, an encoder such as bert or vit, or an object with \"op\"";
    if (keys.flag("is_encoder_decoder", false))
        keys.fail("\"is_encoder_decoder\" is true: such models are not counted" + expected);
    if (keys.flag("use_bidirectional_attention", false))
        keys.fail("\"use_bidirectional_attention\" is true: such an encoder is not counted" + expected);
    const Json *architectures = keys.find("architectures");
    if (architectures == nullptr || !architectures->is_array() || keys.flag("is_decoder", false)) return;
    for (const Json &each : *architectures) {
        const std::string name = each.is_string() ? each.get<std::string>() : std::string();
        if (std::ranges::any_of(kEncoderHeads, [&](std::string_view head) { return name.ends_with(head); }))
            keys.fail("\"architectures\" names the encoder " + quote_name(name) + ", which is not counted" + expected);
    }
}

// A list of the layers' kinds; a shorter one is repeated.
std::uint32_t attending_kinds(const ModelKeys &keys, const std::string &key, const Json &kinds, std::uint32_t layers) {
    if (!kinds.is_array() || kinds.empty()) keys.fail(quote_name(key) + " is no list of layers' kinds, expected one");
    std::uint32_t count = 0;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
        const Json &each = kinds[layer % kinds.size()];
        const std::string kind = each.is_string() ? each.get<std::string>() : std::string();
        const bool attends = is_one_of(kAttending, kind);
        if (!attends && !is_one_of(kNotAttending, kind))
            keys.fail(quote_name(key) + " has " + quote_name(kind) + " for layer " + std::to_string(layer) +
                      ", which is not counted, expected full_attention, sliding_attention, linear_attention or mamba");
        if (attends) ++count;
    }
    return count;
}

// Returns the first key that is about layers which do not attend, "" if there is none.
std::string key_of_other_layers(const ModelKeys &keys) {
    for (const auto &[key, value] : keys.object().items())
        for (const std::string_view beginning : kOtherLayers)
            if (key.starts_with(beginning) && !value.is_null()) return key;
    return "";
}

// Returns how many of the layers attend, by the key that says so; nothing where no key speaks of other layers.
std::optional<std::uint32_t> attending_layers(const ModelKeys &keys, std::uint32_t layers) {
    for (const std::string key : {"layer_types", "layers_block_type", "block_types", "_block_types"})
        if (const Json *kinds = keys.find(key)) return attending_kinds(keys, key, *kinds, layers);
    if (const std::optional<ModelKeys> linear = keys.inner("linear_attn_config");
        linear && linear->has("full_attn_layers")) {
        const Json &list = *linear->find("full_attn_layers");
        if (!list.is_array()) linear->fail_value("full_attn_layers", "a list of layers");
        return static_cast<std::uint32_t>(list.size());
    }
    if (keys.has("full_attention_interval")) return layers / keys.size("full_attention_interval");
    if (keys.has("attn_layer_period")) {
        const Json *given = keys.find("attn_layer_offset");
        const std::uint32_t offset = given != nullptr && given->is_number_unsigned() ? given->get<std::uint32_t>() : 0;
        return offset >= layers ? 0 : (layers - offset - 1) / keys.size("attn_layer_period") + 1;
    }
    for (const char *key : {"attn_layer_indices", "full_attn_idxs"})
        if (const Json *list = keys.find(key); list != nullptr && list->is_array())
            return static_cast<std::uint32_t>(list->size());
    if (const std::string pattern = keys.text("hybrid_override_pattern", ""); !pattern.empty())
        return static_cast<std::uint32_t>(std::ranges::count(pattern, '*'));
    if (const std::string key = key_of_other_layers(keys); !key.empty())
        keys.fail(quote_name(key) + " is of layers that do not attend, and no key says which do, expected layer_types, "
                                    "full_attention_interval or attn_layer_period");
    return {};
}

// What a layer of linear attention keeps of a sequence: its state and the last inputs of its convolution, in f32. 0: the config has not
// all of its sizes.
std::uint64_t state_bytes_of_layer(const ModelKeys &keys) {
    const auto bytes = [&](std::uint64_t key_heads, std::uint64_t value_heads, std::uint64_t key_dim,
                           std::uint64_t value_dim, std::uint64_t kernel) {
        constexpr std::uint64_t kMost = 1 << 14; // the products of three stay below 2^64 over all layers
        if (std::max({key_heads, value_heads, key_dim, value_dim, kernel}) > kMost)
            keys.fail("the sizes of its linear attention are beyond " + std::to_string(kMost));
        const std::uint64_t channels = 2 * key_heads * key_dim + value_heads * value_dim;
        return 4 * (value_heads * key_dim * value_dim + (kernel - 1) * channels);
    };
    const auto has = [](const ModelKeys &of, std::initializer_list<const char *> names) {
        return std::ranges::all_of(names, [&](const char *name) { return of.has(name); });
    };
    if (has(keys, {"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"}))
        return bytes(keys.size("linear_num_key_heads"), keys.size("linear_num_value_heads"),
                     keys.size("linear_key_head_dim"), keys.size("linear_value_head_dim"),
                     keys.size("linear_conv_kernel_dim", 4));
    const auto by_channel = [&](std::uint64_t heads, std::uint64_t size, std::uint64_t kernel) {
        return bytes(heads, heads, size, size, kernel);
    };
    if (has(keys, {"linear_num_heads", "linear_head_dim"}))
        return by_channel(keys.size("linear_num_heads"), keys.size("linear_head_dim"),
                          keys.size("linear_conv_kernel_dim", 4));
    const std::optional<ModelKeys> linear = keys.inner("linear_attn_config");
    if (!linear || !has(*linear, {"num_heads", "head_dim"})) return 0;
    return by_channel(linear->size("num_heads"), linear->size("head_dim"), linear->size("short_conv_kernel_size", 4));
}

void count_layers(const ModelKeys &keys, EstimateModel &model) {
    const std::uint32_t layers = keys.size(keys.name_of({"num_hidden_layers", "n_layer"}), 0);
    model.num_layers = layers;
    const std::optional<std::uint32_t> attending = layers == 0 ? std::nullopt : attending_layers(keys, layers);
    if (!attending || *attending == layers) return;
    if (*attending > layers)
        keys.fail("names " + std::to_string(*attending) + " layers that attend, expected at most its " +
                  std::to_string(layers));
    if (*attending == 0) keys.fail("none of its " + std::to_string(layers) + " layers attends, expected some that do");
    model.num_layers = *attending;
    model.state_bytes = state_bytes_of_layer(keys) * (layers - *attending);
    model.notes.push_back(model.name + ": " + std::to_string(*attending) + " of its " + std::to_string(layers) +
                          " layers attend and are counted; " +
                          (model.state_bytes == 0
                               ? "the others keep no cache that grows with the context"
                               : "of the others their states are, which do not grow with the context, and no weights"));
}

void add_notes(const ModelKeys &keys, EstimateModel &model) {
    const std::string type = keys.text("model_type", "");
    if (!type.empty() && !is_one_of(kDecoders, type) && !is_bert_like(keys))
        model.notes.push_back(model.name + ": model_type " + quote_name(type) +
                              " is not known, and counted as a causal decoder of the sizes that it names");
    if (keys.flag("attn_output_gate", type == "qwen3_next" || type == "qwen3_5_text"))
        model.notes.push_back(model.name +
                              ": the gate of attention's output, of as many weights as q_proj, is not counted");
    if (keys.has("sliding_window") && keys.flag("use_sliding_window", true))
        model.notes.push_back(model.name + ": its sliding window is not applied, every layer is counted as if it kept "
                                           "the whole context");
}

} // namespace

EstimateModel hugging_face_model(const std::string &path, const std::string &name, const Json &json) {
    const ModelKeys keys = ModelKeys(path, "", json, "a Hugging Face config.json or an object with \"op\"").language();
    EstimateModel model;
    model.name = name;
    model.weight_type = weight_type_of(keys);
    model.with_biases = keys.flag("attention_bias", false) || is_bert_like(keys);
    if (is_bert_like(keys)) {
        model.config = encoder_config(keys);
    } else {
        refuse_other_encoders(keys);
        model.config = keys.has("kv_lora_rank") ? latent_config(keys) : multi_head_config(keys);
        if (keys.has("index_topk") && model.config.kind == VKATTN_LAYER_MLA) read_indexer_sizes(keys, model.config);
    }
    count_layers(keys, model);
    add_notes(keys, model);
    return model;
}

} // namespace vkattn::tools
