#pragma once

#include "runtime/vulkan/context.hpp"

#include <functional>
#include <string>

namespace vkattn {

// The outcome of one check of the self-test.
struct Check {
    std::string name;   // a shader and a path of its code: "decode_subgroups, q8_0"
    std::string reason; // "": passed
    double milliseconds;
    uint32_t check_count; // of the whole self-test, as far as is known: more follow where one fails
};

// Checks the numbers of the shaders that plans take on the device, of attention, of copies into caches and of linear
// layers, on small problems, against float64 arithmetic on the host: every path of their code by itself, and every matrix
// shape. What gives wrong numbers, cannot be built or loses the device is off for this context from then on, with the reason
// in its facts. tell: is given every check.
void self_test(Context &context, const std::function<void(const Check &)> &tell);

// The part of it that concerns paths of one shader, named as verdicts name it: all at once, and each by itself where that
// fails.
void self_test_shader(Context &context, std::string_view shader, CodePaths paths);

} // namespace vkattn
