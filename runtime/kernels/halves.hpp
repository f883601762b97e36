#pragma once

#include "runtime/kernels/parameters.hpp"

namespace vkattn {

// Whether Q, K and V are 16-bit values in rows of whole vectors of 16 bytes: shaders of halves read them as they are.
inline bool is_in_halves(const AttentionProblem &problem) {
    const auto is_suited = [](const vkattn_tensor &tensor) {
        const bool half = tensor.type == VKATTN_TYPE_F16 || tensor.type == VKATTN_TYPE_BF16;
        return half && rows_are_aligned(tensor);
    };
    return is_suited(problem.query) && is_suited(problem.key) && is_suited(problem.value);
}

} // namespace vkattn
