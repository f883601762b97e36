// Kinds of options of the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace vkattn::tools {

// An option that names a file. An empty name is a mistake, for instance of a script's variable.
CLI::Option *add_file(CLI::App &command, const std::string &name, std::string &file, const std::string &help);

// A size such as 4096 or 4k (1024 each).
CLI::Option *add_size(CLI::App &command, const std::string &name, std::uint32_t &size, const std::string &help);

// Sizes such as 512,4k and ranges such as 1k..16k: from the first on, doubled until above the last.
void add_sizes(CLI::App &command, const std::string &name, std::vector<std::uint32_t> &sizes, const std::string &help);

} // namespace vkattn::tools
