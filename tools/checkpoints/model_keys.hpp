// Reads a model's config.json key by key. Such a file has many keys that are not about attention: they are passed over.
#pragma once

#include <vkattn/layers.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

namespace vkattn::tools {

// One JSON object of a file. A key whose value is null counts as absent, as it does for those who write these files.
class ModelKeys {
  public:
    // where: what names the object in messages, "" for the whole file, "rope_scaling." for one inside it.
    // expected: what a message says of a file that lacks a key.
    ModelKeys(std::string file, std::string where, nlohmann::json object,
              std::string expected = "the config.json of a model")
        : file_(std::move(file)), where_(std::move(where)), object_(std::move(object)), expected_(std::move(expected)) {
    }

    const nlohmann::json &object() const { return object_; }
    const nlohmann::json *find(const std::string &key) const;
    bool has(const std::string &key) const { return find(key) != nullptr; }

    // Returns the first of a key's names that is there, else the first.
    std::string name_of(std::initializer_list<const char *> names) const;

    // Each returns the value of a key, or otherwise if it is absent; without otherwise it must be there.
    // Throws InputError, also on a value of another type.
    std::uint32_t size(const std::string &key, std::optional<std::uint32_t> otherwise = {}) const; // from 1
    float positive(const std::string &key, std::optional<float> otherwise = {}) const;
    bool flag(const std::string &key, bool otherwise) const;
    std::string text(const std::string &key, std::optional<std::string> otherwise = {}) const;

    // Returns the object that is the value of a key, or nothing if it is absent.
    std::optional<ModelKeys> inner(const std::string &key) const;

    // Returns the keys of the language model, which models of several modalities keep one level down.
    ModelKeys language() const;

    [[noreturn]] void fail(const std::string &what_and_expected) const;
    [[noreturn]] void fail_value(const std::string &key, const std::string &expected) const;

  private:
    const nlohmann::json &require(const std::string &key) const;

    std::string file_;
    std::string where_;
    nlohmann::json object_;
    std::string expected_;
};

// Sets kind, form and sizes of latent attention, by the names of DeepSeek-V2 and V3.
void read_latent_sizes(const ModelKeys &keys, vkattn_layer_config &layer);

// Sets the sizes of an indexer, by the names of DeepSeek-V3.2.
void read_indexer_sizes(const ModelKeys &keys, vkattn_layer_config &layer);

} // namespace vkattn::tools
