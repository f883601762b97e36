// Bad input: what a user can mend. Always one line, "FILE: what, expected what".
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace vkattn::tools {

// Returns text as one printable line of bounded length: names in a hostile file may hold anything.
std::string clean_line(std::string_view text);

// Returns a name from a file in quotes, printable and shortened.
std::string quote_name(std::string_view name);

// source: the file, or the part of the command line, that is wrong.
class InputError : public std::runtime_error {
  public:
    InputError(std::string_view source, std::string_view what_and_expected);
};

} // namespace vkattn::tools
