// The names of shaders: the modules of a build, by the layer that this library is as well (VkLayer_vkattn_execute.json).
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace execute {

// What a pipeline is made of: the name of the SPIR-V file in $VKATTN_EXECUTE_MODULES, empty if it is not known; and the file in
// $VKATTN_EXECUTE_GIVEN that holds the words that the driver got, empty without that variable.
struct Shader {
    std::string name, given;
};

// The shader of the next dispatch that a program recorded, in the submission under way on this thread. Empty where the dispatch
// is the driver's own. groups: of the packet; none for one whose size lies in memory.
Shader next_shader(const std::array<uint32_t, 3> *groups);

} // namespace execute
