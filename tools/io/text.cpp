#include "tools/io/text.hpp"

#include <array>
#include <cstdio>

namespace vkattn::tools {
namespace {

std::string print_number(const char *format, int digits, double value) {
    std::array<char, 400> text{}; // the longest double has 309 digits before the point
    std::snprintf(text.data(), text.size(), format, digits, value);
    return text.data();
}

} // namespace

std::string significant(double value, int digits) { return print_number("%.*g", digits, value); }
std::string decimals(double value, int digits) { return print_number("%.*f", digits, value); }

std::string padded(std::string text, std::size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text;
}

} // namespace vkattn::tools
