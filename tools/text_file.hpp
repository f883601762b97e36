#pragma once

#include <filesystem>
#include <string>

namespace vkattn::tools {

// Writes a file whole or not at all. Throws InputError, naming it.
void write_text(const std::filesystem::path &path, const std::string &text);

} // namespace vkattn::tools
