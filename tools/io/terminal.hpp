#pragma once

#include <cstdio>

namespace vkattn::tools {

// Whether somebody may be watching the stream.
bool is_terminal(std::FILE *stream);

// Whether the environment says that text may hold more than ASCII.
bool locale_is_utf8();

} // namespace vkattn::tools
