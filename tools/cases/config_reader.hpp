// Reads the configuration of a case key by key; a key that nobody asked for is unknown.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace vkattn::tools {

class ConfigReader {
  public:
    ConfigReader(std::string file, std::string op, nlohmann::json config);

    // Each reads the key into out, which keeps its value if the key is absent. Throws InputError on another type.
    void read(const char *key, std::uint32_t &out);
    void read(const char *key, std::int32_t &out);
    void read(const char *key, std::uint64_t &out);
    void read(const char *key, float &out);
    void read(const char *key, double &out);
    void read(const char *key, std::string &out);
    void read_flag(const char *key, std::uint32_t &out); // true, false, 0 or 1
    void read_size(const char *key, std::uint32_t &out); // from 1: 0 would pass for a key that is absent

    // Reads one of the names, as the value beside it.
    template <typename Value>
    void read_choice(const char *key, const std::vector<std::pair<std::string_view, Value>> &choices, Value &out) {
        const nlohmann::json *found = find(key);
        if (found == nullptr) return;
        std::string expected;
        for (const auto &[name, value] : choices) {
            if (found->is_string() && found->get_ref<const std::string &>() == name) {
                out = value;
                return;
            }
            expected += (expected.empty() ? "" : " or ") + std::string(name);
        }
        fail_value(key, *found, expected);
    }

    // The same for a key that must be there.
    template <typename Value>
    void require(const char *key, Value &out) {
        check_present(key);
        read(key, out);
    }
    void require_flag(const char *key, std::uint32_t &out);
    void check_present(const char *key) const;

    bool has(const char *key) const { return config_.contains(key); }

    // Fails on the first key that was not read.
    void finish() const;

    [[noreturn]] void fail(const std::string &what_and_expected) const;

  private:
    const nlohmann::json *find(const char *key);
    [[noreturn]] void fail_value(const char *key, const nlohmann::json &value, const std::string &expected) const;

    std::string file_;
    std::string op_;
    nlohmann::json config_;
    std::set<std::string> known_;
};

} // namespace vkattn::tools
