#pragma once

#include "runtime/kernels/parameters.hpp"

namespace vkattn {

// Whether Q, K and V are 16-bit values in rows of whole vectors of 16 bytes: modules of halves read them as they are.
inline bool is_in_halves(const AttentionProblem &problem) {
    constexpr uint32_t kAligned = FEATURE_QUERY_ALIGNED | FEATURE_KEY_ALIGNED | FEATURE_VALUE_ALIGNED;
    const auto is_half = [](const vkattn_tensor &tensor) {
        return tensor.type == VKATTN_TYPE_F16 || tensor.type == VKATTN_TYPE_BF16;
    };
    return is_half(problem.query) && is_half(problem.key) && is_half(problem.value) &&
           (constants_of(problem, 1).FEATURES & kAligned) == kAligned;
}

} // namespace vkattn
