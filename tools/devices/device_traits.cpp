#include "tools/devices/device_traits.hpp"

#include "tools/io/input_error.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace vkattn::tools {
namespace {

constexpr const char *kVariable = "VKATTN_DEVICE_TRAITS";

vkattn_trait_name trait_named(std::string_view wanted, std::string_view source) {
    std::string names;
    for (int i = 0; i < VKATTN_TRAIT_COUNT; ++i) {
        const auto name = static_cast<vkattn_trait_name>(i);
        if (wanted == vkattn_trait_text(name)) return name;
        names += (names.empty() ? "" : ", ") + std::string(vkattn_trait_text(name));
    }
    throw InputError(source, "\"" + std::string(wanted) + "\" is unknown, expected one of " + names);
}

vkattn_trait parse_trait(std::string_view text, std::string_view source) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string_view number = text.substr(std::min(equals + 1, text.size()));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc{} || end != number.data() + number.size())
        throw InputError(source, "\"" + std::string(text) + "\", expected name=number");
    return {trait_named(text.substr(0, equals), source), value};
}

} // namespace

std::vector<vkattn_trait> parse_traits(std::string_view text, std::string_view source) {
    std::vector<vkattn_trait> traits;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        traits.push_back(parse_trait(text.substr(0, comma), source));
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return traits;
}

std::vector<vkattn_trait> traits_of_environment() {
    const char *text = std::getenv(kVariable);
    return text != nullptr ? parse_traits(text, kVariable) : std::vector<vkattn_trait>{};
}

} // namespace vkattn::tools
