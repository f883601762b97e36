#pragma once

#include <filesystem>
#include <string>

namespace vkattn::tools {

// Writes a file whole or not at all. Throws InputError, naming it.
void write_text(const std::filesystem::path &path, const std::string &text);

// Returns a file's bytes, at most 1 GiB of them; "" if there is none of the name. Throws InputError, naming it.
std::string read_if_there(const std::filesystem::path &path);

} // namespace vkattn::tools
