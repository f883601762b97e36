#include "tools/estimate/config.hpp"

#include "tools/cases/layer_extensions.hpp"
#include "tools/io/input_error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace vkattn::tools {
namespace {

using Json = nlohmann::json;

// Keys of the families of Hugging Face configurations, the usual one first.
constexpr std::array<const char *, 2> kWidthKeys{"hidden_size", "n_embd"};
constexpr std::array<const char *, 2> kHeadKeys{"num_attention_heads", "n_head"};
constexpr std::array<const char *, 4> kKvHeadKeys{"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                                  "multi_query_group_num"};
constexpr std::array<const char *, 2> kLayerKeys{"num_hidden_layers", "n_layer"};
constexpr std::array<const char *, 2> kTypeKeys{"torch_dtype", "dtype"};

// Encoders whose layers are those of BERT: attention and feed-forward with LayerNorm and biases.
constexpr std::array<std::string_view, 8> kBertLike{"bert",      "roberta", "xlm-roberta", "xlm-roberta-xl",
                                                    "camembert", "electra", "vit",         "deit"};
// What models are called that read a sequence as a whole.
constexpr std::array<std::string_view, 4> kEncoderHeads{"ForMaskedLM", "ForMaskedImageModeling",
                                                        "ForImageClassification", "ForCTC"};
// Decoders that are counted as they are.
constexpr std::array<std::string_view, 24> kDecoders{
    "llama",       "mistral", "mixtral",     "qwen2",    "qwen2_moe",   "qwen3",       "qwen3_moe",   "gemma",
    "gemma2",      "gemma3",  "gemma3_text", "phi",      "phi3",        "deepseek_v2", "deepseek_v3", "deepseek_v32",
    "glm_moe_dsa", "kimi_k2", "gpt2",        "gpt_neox", "gpt_bigcode", "falcon",      "opt",         "starcoder2"};
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

// A Hugging Face configuration: its keys are many, and those that are not about sizes do not matter here.
class HuggingFaceConfig {
  public:
    HuggingFaceConfig(const std::string &file, const Json &json) : file_(file), json_(json) {}

    const Json *find(std::span<const char *const> keys) const {
        for (const char *key : keys) {
            const auto found = json_.find(key);
            if (found != json_.end() && !found->is_null()) return &*found;
        }
        return nullptr;
    }
    const Json *find(const char *key) const { return find(std::span(&key, 1)); }

    std::uint32_t size(std::span<const char *const> keys) const {
        const Json *found = find(keys);
        if (found == nullptr)
            throw InputError(file_, std::string("has no \"") + keys.front() +
                                        "\", expected a Hugging Face config.json "
                                        "or an object with \"op\"");
        constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
        if (!found->is_number_unsigned() || found->get<std::uint64_t>() == 0 || found->get<std::uint64_t>() > kMax)
            throw InputError(file_, std::string("\"") + keys.front() + "\" is " +
                                        clean_line(found->dump(-1, ' ', false, Json::error_handler_t::replace)) +
                                        ", expected a whole number from 1 to " + std::to_string(kMax));
        return found->get<std::uint32_t>();
    }
    std::uint32_t size(const char *key) const { return size(std::span(&key, 1)); }

    std::uint32_t size_or(std::span<const char *const> keys, std::uint32_t otherwise) const {
        return find(keys) == nullptr ? otherwise : size(keys);
    }
    std::uint32_t size_or(const char *key, std::uint32_t otherwise) const {
        return size_or(std::span(&key, 1), otherwise);
    }

    std::string text(const char *key) const {
        const Json *found = find(key);
        return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
    }

    // The first key that begins like one of these, "" if there is none.
    std::string key_like(std::span<const std::string_view> beginnings) const {
        for (const auto &[key, value] : json_.items())
            for (const std::string_view beginning : beginnings)
                if (key.starts_with(beginning) && !value.is_null()) return key;
        return "";
    }

    [[noreturn]] void fail(const std::string &what_and_expected) const { throw InputError(file_, what_and_expected); }

    bool flag(const char *key) const {
        const Json *found = find(key);
        return found != nullptr && found->is_boolean() && found->get<bool>();
    }

  private:
    const std::string &file_;
    const Json &json_;
};

vkattn_layer_config multi_head_config(const HuggingFaceConfig &file) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = file.size(kWidthKeys);
    config.num_heads = file.size(kHeadKeys);
    config.num_kv_heads = file.size_or(kKvHeadKeys, file.flag("multi_query") ? 1 : config.num_heads);
    config.head_dim = file.size_or("head_dim", 0);
    return config;
}

// The names of DeepSeek-V2 and V3.
vkattn_layer_config latent_config(const HuggingFaceConfig &file) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MLA;
    config.embed_dim = file.size(kWidthKeys);
    config.num_heads = file.size(kHeadKeys);
    config.kv_lora_rank = file.size("kv_lora_rank");
    config.q_lora_rank = file.size_or("q_lora_rank", 0);
    config.qk_nope_head_dim = file.size("qk_nope_head_dim");
    config.qk_rope_head_dim = file.size("qk_rope_head_dim");
    config.v_head_dim = file.size("v_head_dim");
    config.mla_form = VKATTN_MLA_ABSORB;
    config.rope_theta = 10000; // DeepSeek's; no cost depends on it, but the layer must have one
    config.rope_interleaved = 1;
    return config;
}

// The names of DeepSeek-V3.2.
void read_indexer(const HuggingFaceConfig &file, EstimateModel &model) {
    vkattn_layer_indexer indexer{};
    indexer.index_n_heads = file.size("index_n_heads");
    indexer.index_head_dim = file.size("index_head_dim");
    indexer.index_topk = file.size("index_topk");
    model.indexer = add_indexer(model.config, indexer);
}

vkattn_type weight_type_of(const HuggingFaceConfig &file) {
    const Json *found = file.find(kTypeKeys);
    if (found == nullptr || !found->is_string()) return VKATTN_TYPE_NONE;
    const auto &name = found->get_ref<const std::string &>();
    if (name == "float32") return VKATTN_TYPE_F32;
    if (name == "float16") return VKATTN_TYPE_F16;
    return name == "bfloat16" ? VKATTN_TYPE_BF16 : VKATTN_TYPE_NONE;
}

// The sizes of one BERT layer, which counts the feed-forward too.
vkattn_layer_config encoder_config(const HuggingFaceConfig &file) {
    vkattn_layer_config config = multi_head_config(file);
    config.kind = VKATTN_LAYER_ENCODER;
    config.ffn_dim = file.size("intermediate_size");
    config.activation = VKATTN_ACTIVATION_GELU;
    return config;
}

bool is_bert_like(const HuggingFaceConfig &file) {
    return is_one_of(kBertLike, file.text("model_type")) && !file.flag("is_decoder");
}

void refuse_other_encoders(const HuggingFaceConfig &file) {
    const std::string expected = ", expected a decoder, an encoder such as bert or vit, or an object with \"op\"";
    if (file.flag("is_encoder_decoder"))
        file.fail("\"is_encoder_decoder\" is true: such models are not counted" + expected);
    if (file.flag("use_bidirectional_attention"))
        file.fail("\"use_bidirectional_attention\" is true: such an encoder is not counted" + expected);
    const Json *architectures = file.find("architectures");
    if (architectures == nullptr || !architectures->is_array() || file.flag("is_decoder")) return;
    for (const Json &each : *architectures) {
        const std::string name = each.is_string() ? each.get<std::string>() : std::string();
        if (std::ranges::any_of(kEncoderHeads, [&](std::string_view head) { return name.ends_with(head); }))
            file.fail("\"architectures\" names the encoder " + quote_name(name) + ", which is not counted" + expected);
    }
}

// A list of the layers' kinds; a shorter one is repeated.
std::uint32_t attending_kinds(const HuggingFaceConfig &file, const std::string &key, const Json &kinds,
                              std::uint32_t layers) {
    if (!kinds.is_array() || kinds.empty()) file.fail(quote_name(key) + " is no list of layers' kinds, expected one");
    std::uint32_t count = 0;
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
        const Json &each = kinds[layer % kinds.size()];
        const std::string kind = each.is_string() ? each.get<std::string>() : std::string();
        const bool attends = is_one_of(kAttending, kind);
        if (!attends && !is_one_of(kNotAttending, kind))
            file.fail(quote_name(key) + " has " + quote_name(kind) + " for layer " + std::to_string(layer) +
                      ", which is not counted, expected full_attention, sliding_attention, linear_attention or mamba");
        if (attends) ++count;
    }
    return count;
}

// Returns how many of the layers attend, by the key that says so; nothing where no key speaks of other layers.
std::optional<std::uint32_t> attending_layers(const HuggingFaceConfig &file, std::uint32_t layers) {
    for (const std::string key : {"layer_types", "layers_block_type", "block_types", "_block_types"})
        if (const Json *kinds = file.find(key.c_str())) return attending_kinds(file, key, *kinds, layers);
    if (file.find("full_attention_interval") != nullptr) return layers / file.size("full_attention_interval");
    if (file.find("attn_layer_period") != nullptr) {
        const Json *given = file.find("attn_layer_offset");
        const std::uint32_t offset = given != nullptr && given->is_number_unsigned() ? given->get<std::uint32_t>() : 0;
        return offset >= layers ? 0 : (layers - offset - 1) / file.size("attn_layer_period") + 1;
    }
    for (const char *key : {"attn_layer_indices", "full_attn_idxs"})
        if (const Json *list = file.find(key); list != nullptr && list->is_array())
            return static_cast<std::uint32_t>(list->size());
    if (const std::string pattern = file.text("hybrid_override_pattern"); !pattern.empty())
        return static_cast<std::uint32_t>(std::ranges::count(pattern, '*'));
    if (const std::string key = file.key_like(kOtherLayers); !key.empty())
        file.fail(quote_name(key) + " is of layers that do not attend, and no key says which do, expected layer_types, "
                                    "full_attention_interval or attn_layer_period");
    return {};
}

void count_layers(const HuggingFaceConfig &file, EstimateModel &model) {
    const std::uint32_t layers = file.size_or(kLayerKeys, 0);
    model.num_layers = layers;
    const std::optional<std::uint32_t> attending = layers == 0 ? std::nullopt : attending_layers(file, layers);
    if (!attending || *attending == layers) return;
    if (*attending == 0) file.fail("none of its " + std::to_string(layers) + " layers attends, expected some that do");
    model.num_layers = *attending;
    model.notes.push_back(model.name + ": " + std::to_string(*attending) + " of its " + std::to_string(layers) +
                          " layers attend and are counted; the others keep no cache that grows with the context");
}

void add_notes(const HuggingFaceConfig &file, EstimateModel &model) {
    const std::string type = file.text("model_type");
    if (!type.empty() && !is_one_of(kDecoders, type) && !is_bert_like(file))
        model.notes.push_back(model.name + ": model_type " + quote_name(type) +
                              " is not known, and counted as a causal decoder of the sizes that it names");
    const Json *uses_window = file.find("use_sliding_window");
    const bool is_window_off = uses_window != nullptr && uses_window->is_boolean() && !uses_window->get<bool>();
    if (file.find("sliding_window") != nullptr && !is_window_off)
        model.notes.push_back(model.name + ": its sliding window is not applied, every layer is counted as if it kept "
                                           "the whole context");
}

} // namespace

EstimateModel hugging_face_model(const std::string &path, const std::string &name, const Json &json) {
    // Models of several modalities keep the language model's sizes one level down.
    const auto nested = json.find("text_config");
    const bool is_nested = nested != json.end() && nested->is_object() && !json.contains("num_attention_heads");
    const HuggingFaceConfig file(path, is_nested ? *nested : json);
    EstimateModel model;
    model.name = name;
    model.weight_type = weight_type_of(file);
    model.with_biases = file.flag("attention_bias") || is_bert_like(file);
    if (is_bert_like(file)) {
        model.config = encoder_config(file);
    } else {
        refuse_other_encoders(file);
        model.config = file.find("kv_lora_rank") != nullptr ? latent_config(file) : multi_head_config(file);
        if (file.find("index_topk") != nullptr && model.config.kind == VKATTN_LAYER_MLA) read_indexer(file, model);
    }
    count_layers(file, model);
    add_notes(file, model);
    return model;
}

} // namespace vkattn::tools
