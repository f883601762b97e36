#pragma once

#include "runtime/spirv/result.hpp"

namespace vkattn::spirv {

// Makes control flow structured again, after branches were decided: what remains a construct of the specification's section
// 2.11 keeps its merge instruction, and what is none any longer loses it. Then joins blocks that only follow each other.
void repair_structure(Result &result);

} // namespace vkattn::spirv
