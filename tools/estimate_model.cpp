#include "estimate_model.hpp"

#include "case_file.hpp"
#include "input_error.hpp"
#include "strict_json.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

namespace vkattn::tools {
namespace {

using Json = nlohmann::json;

constexpr std::uintmax_t kLargestFile = 16U << 20U;
constexpr int kDeepestNesting = 32;

// Keys of the families of Hugging Face configurations, the usual one first.
constexpr std::array<const char *, 2> kWidthKeys{"hidden_size", "n_embd"};
constexpr std::array<const char *, 2> kHeadKeys{"num_attention_heads", "n_head"};
constexpr std::array<const char *, 4> kKvHeadKeys{"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                                  "multi_query_group_num"};
constexpr std::array<const char *, 2> kLayerKeys{"num_hidden_layers", "n_layer"};
constexpr std::array<const char *, 2> kTypeKeys{"torch_dtype", "dtype"};

std::string read_text(const std::string &path) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error) throw InputError(path, "cannot be read (" + error.message() + "), expected a configuration in JSON");
    if (size > kLargestFile) throw InputError(path, "is larger than 16 MiB, expected a configuration in JSON");
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file) throw InputError(path, "cannot be read, expected a configuration in JSON");
    return text;
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

vkattn_type weight_type_of(const HuggingFaceConfig &file) {
    const Json *found = file.find(kTypeKeys);
    if (found == nullptr || !found->is_string()) return VKATTN_TYPE_NONE;
    const auto &name = found->get_ref<const std::string &>();
    if (name == "float32") return VKATTN_TYPE_F32;
    if (name == "float16") return VKATTN_TYPE_F16;
    return name == "bfloat16" ? VKATTN_TYPE_BF16 : VKATTN_TYPE_NONE;
}

// A directory's name says more than "config.json".
std::string model_name(const std::string &path) {
    const std::filesystem::path file(path);
    if (file.filename() == "config.json" && file.has_parent_path() && file.parent_path().has_filename())
        return file.parent_path().filename().string();
    return file.stem().string();
}

EstimateModel hugging_face_model(const std::string &path, const Json &json) {
    // Models of several modalities keep the language model's sizes one level down.
    const auto nested = json.find("text_config");
    const bool is_nested = nested != json.end() && nested->is_object() && !json.contains("num_attention_heads");
    const HuggingFaceConfig file(path, is_nested ? *nested : json);
    EstimateModel model;
    model.name = model_name(path);
    model.config = file.find("kv_lora_rank") != nullptr ? latent_config(file) : multi_head_config(file);
    model.num_layers = file.size_or(kLayerKeys, 0);
    model.weight_type = weight_type_of(file);
    model.with_biases = file.flag("attention_bias");
    const Json *uses_window = file.find("use_sliding_window");
    const bool is_window_off = uses_window != nullptr && uses_window->is_boolean() && !uses_window->get<bool>();
    if (file.find("sliding_window") != nullptr && !is_window_off)
        model.notes.push_back(model.name + ": its sliding window is not applied, every layer is counted as if it kept "
                                           "the whole context");
    return model;
}

// The object that a case file has in its metadata, without any tensors.
EstimateModel own_model(const std::string &path, const std::string &text) {
    const CaseFile read = parse_case(path, {{{"vkattn", text}}, {}});
    if (!read.is_layer())
        throw InputError(path, "op 'attention' has no sizes of its own, expected the configuration of a layer");
    EstimateModel model;
    model.name = model_name(path);
    model.config = read.layer;
    return model;
}

} // namespace

EstimateModel read_model(const std::string &path) {
    const std::string text = read_text(path);
    const Json json = parse_strict_json(text, path, "the configuration", kDeepestNesting);
    return json.contains("op") ? own_model(path, text) : hugging_face_model(path, json);
}

EstimateModel named_model(const std::string &name, std::uint32_t d_model, std::uint32_t num_heads) {
    EstimateModel model;
    model.name = name;
    if (vkattn_layer_config_from_name(name.c_str(), d_model, num_heads, &model.config) != VKATTN_SUCCESS)
        throw InputError(name, vkattn_last_error());
    return model;
}

std::vector<EstimateModel> usual_models(std::uint32_t d_model, std::uint32_t num_heads) {
    std::vector<EstimateModel> models{named_model("mha", d_model, num_heads)};
    for (const auto &[name, kv_heads] : {std::pair("gqa-8", 8U), std::pair("gqa-4", 4U), std::pair("mqa", 1U)})
        if (num_heads > kv_heads && num_heads % kv_heads == 0) models.push_back(named_model(name, d_model, num_heads));
    models.push_back(named_model("mla", d_model, num_heads));
    return models;
}

} // namespace vkattn::tools
