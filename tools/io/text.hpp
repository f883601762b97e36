// Numbers and columns as text.
#pragma once

#include <cstddef>
#include <string>

namespace vkattn::tools {

// Return numbers as text: significant digits, digits after the point.
std::string significant(double value, int digits);
std::string decimals(double value, int digits);

// Returns text with spaces up to a width.
std::string padded(std::string text, std::size_t width);

} // namespace vkattn::tools
