// Contents of block masks and of tree masks.
#pragma once

#include "host_tensor.hpp"

#include <array>
#include <cstdint>

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

// Trees of queries in the order in which they were drafted, [B,Lq,words] or packed: of each row the ancestors and itself. Every seventh
// row is any bits, and every eleventh none. The bits behind the queries' own are set, and mean nothing.
inline HostTensor random_trees(Shape shape, std::uint64_t queries, std::mt19937 &random) {
    HostTensor trees(VKATTN_TYPE_I32, shape);
    const std::uint64_t words = shape.back(), rows = trees.elements() / words;
    auto *bits = reinterpret_cast<std::uint32_t *>(trees.bytes().data());
    for (std::uint64_t row = 0; row < rows; ++row) {
        const std::uint64_t query = row % queries;
        std::uint32_t *own = bits + row * words;
        const std::uint64_t parent = random() % (query + 1); // of the row itself: none
        for (std::uint64_t word = 0; word < words; ++word) {
            if (parent != query) own[word] = bits[(row - query + parent) * words + word];
            if (row % 7 == 6) own[word] = static_cast<std::uint32_t>(random());
            if (row % 11 == 10) own[word] = 0;
        }
        if (row % 11 != 10) own[query / 32] |= 1u << (query % 32);
    }
    for (std::uint64_t row = 0; row < rows; ++row)
        for (std::uint64_t bit = queries; bit < 32 * words; ++bit) bits[row * words + bit / 32] |= 1u << (bit % 32);
    return trees;
}

} // namespace vkattn_test
