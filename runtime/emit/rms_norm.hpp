#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// RMSNorm of rows on their way into something else: of each x / sqrt(mean(x^2) + epsilon) * weight.
struct RmsNorm {
    View weight{}; // [N] contiguous; absent: none
    float epsilon = 0;
};

} // namespace vkattn
