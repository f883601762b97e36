// Variants of attention in the command: from text, where the build has vkattn_jit.
#pragma once

#include <vkattn/vkattn.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vkattn::tools {

// Throws Error where the build has no vkattn_jit.
void require_variant_compiler();

// The variant of a text. Throws Error, which says why not.
Variant make_variant(const Context &context, const std::string &functions);

// The file that vkattn_variant_info.compiled takes. name: what messages call the text. Throws Error.
std::vector<std::uint8_t> compile_variant(const std::string &functions, const std::string &name);

} // namespace vkattn::tools
