#include "tools/io/input_error.hpp"

#include <array>
#include <cstdio>

namespace vkattn::tools {
namespace {

constexpr std::size_t kMaxLineLength = 1200;
constexpr std::size_t kMaxNameLength = 100;

bool is_control(char character) {
    const auto code = static_cast<unsigned char>(character);
    return code < 0x20 || code == 0x7f;
}

} // namespace

std::string clean_line(std::string_view text) {
    std::string line;
    for (const char character : text) {
        if (line.size() >= kMaxLineLength) return line + "...";
        if (!is_control(character)) {
            line += character;
            continue;
        }
        std::array<char, 8> escaped{};
        std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(character) & 0xffU);
        line += escaped.data();
    }
    return line;
}

std::string quote_name(std::string_view name) {
    const bool is_long = name.size() > kMaxNameLength;
    return "'" + clean_line(name.substr(0, kMaxNameLength)) + (is_long ? "...'" : "'");
}

InputError::InputError(std::string_view source, std::string_view what_and_expected)
    : std::runtime_error(clean_line(std::string(source) + ": " + std::string(what_and_expected))) {}

} // namespace vkattn::tools
