// Files of formats that the tools do not read, told by how they begin.
#pragma once

#include <string_view>

namespace vkattn::tools {

// Returns for instance "a GGUF file", "" for what begins like none of them.
std::string_view foreign_format(std::string_view first_bytes);

} // namespace vkattn::tools
