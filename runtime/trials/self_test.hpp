#pragma once

#include "runtime/vulkan/context.hpp"

#include <functional>
#include <string>

namespace vkattn {

// The outcome of one check of the self-test.
struct Check {
    std::string name;
    std::string reason; // "": passed
    double milliseconds;
};

// Checks the numbers of every kernel that the device can run, with every matrix shape, and of linear layers, on small
// problems, against float64 arithmetic on the host. What gives wrong numbers, or cannot be built, is off for this context
// from then on, with the reason in its facts. tell: is given every check, those of a kernel once it is judged.
void self_test(Context &context, const std::function<void(const Check &)> &tell);

// The part of it that concerns one kernel; of matrix shapes, those that plans take: a smaller one only where the larger
// ones fail.
void self_test_kernel(Context &context, vkattn_kernel kernel);

} // namespace vkattn
