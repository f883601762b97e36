// Reads a model's config.json key by key. Such a file has many keys that are not about attention: they are passed over.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace vkattn::tools {

// One JSON object of a file. A key whose value is null counts as absent, as it does for those who write these files.
class ModelKeys {
  public:
    // where: what names the object in messages, "" for the whole file, "rope_scaling." for one inside it.
    ModelKeys(std::string file, std::string where, nlohmann::json object)
        : file_(std::move(file)), where_(std::move(where)), object_(std::move(object)) {}

    const nlohmann::json &object() const { return object_; }
    const nlohmann::json *find(const std::string &key) const;
    bool has(const std::string &key) const { return find(key) != nullptr; }

    // Each returns the value of a key, or otherwise if it is absent; without otherwise it must be there.
    // Throws InputError, also on a value of another type.
    std::uint32_t size(const std::string &key, std::optional<std::uint32_t> otherwise = {}) const; // from 1
    float positive(const std::string &key, std::optional<float> otherwise = {}) const;
    bool flag(const std::string &key, bool otherwise) const;
    std::string text(const std::string &key, std::optional<std::string> otherwise = {}) const;

    // Returns the object that is the value of a key, or nothing if it is absent.
    std::optional<ModelKeys> inner(const std::string &key) const;

    [[noreturn]] void fail(const std::string &what_and_expected) const;
    [[noreturn]] void fail_value(const std::string &key, const std::string &expected) const;

  private:
    const nlohmann::json &require(const std::string &key) const;

    std::string file_;
    std::string where_;
    nlohmann::json object_;
};

} // namespace vkattn::tools
