// What the command says of itself: its manual page, and what an option that it does not know may have meant.
#pragma once

#include <ostream>
#include <string>

namespace CLI {
class App;
class ParseError;
} // namespace CLI

namespace vkattn::tools {

// Prints the manual page vkattn(1), in roff, of what --help prints of each command.
void print_manual_page(std::ostream &out, const CLI::App &app);

// Returns what is wrong with a command line, as one line: names the word or the option that is not known, with those of
// like names, and the help to read.
std::string command_line_error(const CLI::App &app, const CLI::ParseError &error);

} // namespace vkattn::tools
