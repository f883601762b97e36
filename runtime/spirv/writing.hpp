#pragma once

#include "runtime/spirv/expansion.hpp"

namespace vkattn::spirv {

// The words of the module: of what was expanded, all that has an effect, and what that needs.
std::vector<uint32_t> written(const Source &source, const Expansion &expansion, Result &result, std::string_view name);

} // namespace vkattn::spirv
