#include "tools/checkpoints/model_keys.hpp"

#include "tools/io/input_error.hpp"

#include <limits>

namespace vkattn::tools {

using Json = nlohmann::json;

void ModelKeys::fail(const std::string &what_and_expected) const { throw InputError(file_, what_and_expected); }

void ModelKeys::fail_value(const std::string &key, const std::string &expected) const {
    const std::string value = object_.at(key).dump(-1, ' ', false, Json::error_handler_t::replace);
    fail("key '" + where_ + key + "' is " + clean_line(value.substr(0, 60)) + ", expected " + expected);
}

const Json *ModelKeys::find(const std::string &key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json &ModelKeys::require(const std::string &key) const {
    const Json *found = find(key);
    if (found == nullptr) fail("key '" + where_ + key + "' is missing, expected " + expected_);
    return *found;
}

std::string ModelKeys::name_of(std::initializer_list<const char *> names) const {
    for (const char *name : names)
        if (has(name)) return name;
    return *names.begin();
}

std::uint32_t ModelKeys::size(const std::string &key, std::optional<std::uint32_t> otherwise) const {
    if (otherwise && !has(key)) return *otherwise;
    const Json &value = require(key);
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 || value.get<std::uint64_t>() > kMax)
        fail_value(key, "a whole number from 1 to " + std::to_string(kMax));
    return value.get<std::uint32_t>();
}

float ModelKeys::positive(const std::string &key, std::optional<float> otherwise) const {
    if (otherwise && !has(key)) return *otherwise;
    const Json &value = require(key);
    constexpr double kLeast = std::numeric_limits<float>::min(), kMax = std::numeric_limits<float>::max();
    if (!value.is_number() || !(value.get<double>() >= kLeast && value.get<double>() <= kMax))
        fail_value(key, "a number above 0 that a 32-bit float can hold");
    return value.get<float>();
}

bool ModelKeys::flag(const std::string &key, bool otherwise) const {
    const Json *value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail_value(key, "true or false");
    return value->get<bool>();
}

std::string ModelKeys::text(const std::string &key, std::optional<std::string> otherwise) const {
    if (otherwise && !has(key)) return *otherwise;
    if (!require(key).is_string()) fail_value(key, "a string");
    return require(key).get<std::string>();
}

std::optional<ModelKeys> ModelKeys::inner(const std::string &key) const {
    const Json *value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) fail_value(key, "an object");
    return ModelKeys(file_, where_ + key + ".", *value, expected_);
}

ModelKeys ModelKeys::language() const {
    const std::optional<ModelKeys> inside = inner("text_config");
    return inside && !has("num_attention_heads") ? *inside : *this;
}

void read_latent_sizes(const ModelKeys &keys, vkattn_layer_config &layer) {
    layer.kind = VKATTN_LAYER_MLA;
    layer.mla_form = VKATTN_MLA_ABSORB;
    layer.embed_dim = keys.size("hidden_size");
    layer.num_heads = keys.size("num_attention_heads");
    layer.q_lora_rank = keys.size("q_lora_rank", 0);
    layer.kv_lora_rank = keys.size("kv_lora_rank");
    layer.qk_nope_head_dim = keys.size("qk_nope_head_dim");
    layer.qk_rope_head_dim = keys.size("qk_rope_head_dim");
    layer.v_head_dim = keys.size("v_head_dim");
}

void read_indexer_sizes(const ModelKeys &keys, vkattn_layer_config &layer) {
    layer.index_n_heads = keys.size("index_n_heads");
    layer.index_head_dim = keys.size("index_head_dim");
    layer.index_topk = keys.size("index_topk");
}

} // namespace vkattn::tools
