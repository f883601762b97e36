// Contents of block masks.
#pragma once

#include "host_tensor.hpp"

#include <array>

namespace vkattn_test {

// Hidden, partial and full blocks, and numbers that mean partial as well.
inline HostTensor random_block_states(Shape shape, std::mt19937 &random) {
    constexpr std::array<float, 6> kStates = {VKATTN_BLOCK_HIDDEN, VKATTN_BLOCK_HIDDEN, VKATTN_BLOCK_PARTIAL,
                                              VKATTN_BLOCK_FULL,   VKATTN_BLOCK_FULL,   -7.0f};
    std::uniform_int_distribution<std::size_t> any(0, kStates.size() - 1);
    HostTensor tensor(VKATTN_TYPE_I32, std::move(shape));
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, kStates[any(random)]);
    return tensor;
}

} // namespace vkattn_test
