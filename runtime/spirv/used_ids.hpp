#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn::spirv {

// Returns by id whether the functions of a module need it: compilers declare what the text declares. Of a module that cannot be
// read all are needed.
std::vector<bool> used_ids(std::span<const uint32_t> code);

} // namespace vkattn::spirv
