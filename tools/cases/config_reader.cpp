#include "tools/cases/config_reader.hpp"

#include "tools/io/input_error.hpp"

#include <cmath>
#include <limits>

namespace vkattn::tools {

using Json = nlohmann::json;

ConfigReader::ConfigReader(std::string file, std::string op, Json config)
    : file_(std::move(file)), op_(std::move(op)), config_(std::move(config)), known_{"op"} {}

void ConfigReader::fail(const std::string &what_and_expected) const { throw InputError(file_, what_and_expected); }

void ConfigReader::fail_value(const char *key, const Json &value, const std::string &expected) const {
    const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    fail(std::string("config key '") + key + "' is " + clean_line(text.substr(0, 60)) + ", expected " + expected);
}

const Json *ConfigReader::find(const char *key) {
    known_.insert(key);
    const auto found = config_.find(key);
    return found == config_.end() ? nullptr : &*found;
}

void ConfigReader::read(const char *key, std::uint32_t &out) {
    const Json *found = find(key);
    if (found == nullptr) return;
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint32_t>::max();
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() > kMax)
        fail_value(key, *found, "a whole number from 0 to " + std::to_string(kMax));
    out = found->get<std::uint32_t>();
}

void ConfigReader::read_size(const char *key, std::uint32_t &out) {
    read(key, out);
    if (has(key) && out == 0) fail(std::string("config key '") + key + "' is 0, expected at least 1");
}

void ConfigReader::read(const char *key, std::int32_t &out) {
    const Json *found = find(key);
    if (found == nullptr) return;
    constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
    const bool is_huge = found->is_number_unsigned() && found->get<std::uint64_t>() > static_cast<std::uint64_t>(kMax);
    if (!found->is_number_integer() || is_huge || found->get<std::int64_t>() < -1)
        fail_value(key, *found, "a whole number from -1 to " + std::to_string(kMax));
    out = found->get<std::int32_t>();
}

void ConfigReader::read(const char *key, std::uint64_t &out) {
    const Json *found = find(key);
    if (found == nullptr) return;
    if (!found->is_number_unsigned()) fail_value(key, *found, "a whole number from 0 to 2^64-1");
    out = found->get<std::uint64_t>();
}

void ConfigReader::read(const char *key, double &out) {
    const Json *found = find(key);
    if (found == nullptr) return;
    if (!found->is_number()) fail_value(key, *found, "a number");
    out = found->get<double>();
}

void ConfigReader::read(const char *key, float &out) {
    const Json *found = find(key);
    if (found == nullptr) return;
    constexpr double kMax = std::numeric_limits<float>::max();
    if (!found->is_number() || !(std::abs(found->get<double>()) <= kMax))
        fail_value(key, *found, "a number that a 32-bit float can hold");
    out = found->get<float>();
}

void ConfigReader::read(const char *key, std::string &out) {
    const Json *found = find(key);
    if (found == nullptr) return;
    if (!found->is_string()) fail_value(key, *found, "a string");
    out = found->get<std::string>();
}

void ConfigReader::read_flag(const char *key, std::uint32_t &out) {
    const Json *found = find(key);
    if (found == nullptr) return;
    const bool is_number = found->is_number_unsigned() && found->get<std::uint64_t>() <= 1;
    if (!found->is_boolean() && !is_number) fail_value(key, *found, "true, false, 0 or 1");
    out = found->is_boolean() ? static_cast<std::uint32_t>(found->get<bool>()) : found->get<std::uint32_t>();
}

void ConfigReader::require_flag(const char *key, std::uint32_t &out) {
    check_present(key);
    read_flag(key, out);
}

void ConfigReader::check_present(const char *key) const {
    if (!has(key)) fail("config key '" + std::string(key) + "' is missing, expected it for op " + quote_name(op_));
}

void ConfigReader::finish() const {
    std::string expected;
    for (const std::string &key : known_) expected += (expected.empty() ? "" : " ") + key;
    for (const auto &[key, value] : config_.items())
        if (!known_.contains(key))
            fail("unknown config key " + quote_name(key) + " for op " + quote_name(op_) + ", expected one of " +
                 expected);
}

} // namespace vkattn::tools
