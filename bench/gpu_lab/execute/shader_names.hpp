// The names of shaders: the modules of a build, by the layer that this library is as well (VkLayer_vkattn_execute.json).
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace execute {

// The shader of the next dispatch that a program recorded, in the submission under way on this thread: the name of the SPIR-V
// file in $VKATTN_EXECUTE_MODULES that its pipeline is made of. Empty if it is not known, or where the dispatch is the driver's
// own. groups: of the packet; none for one whose size lies in memory.
std::string next_shader(const std::array<uint32_t, 3> *groups);

} // namespace execute
