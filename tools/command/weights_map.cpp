#include "tools/command/weights_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace vkattn::tools {
namespace {

// The largest weight of the queries and keys that share a cell, where rows x columns cells show [queries, keys] weights.
double pooled_weight(std::span<const double> weights, std::size_t queries, std::size_t keys, std::size_t rows,
                     std::size_t columns, std::size_t row, std::size_t column) {
    double weight = 0;
    for (std::size_t q = row * queries / rows; q < (row + 1) * queries / rows; ++q)
        for (std::size_t k = column * keys / columns; k < (column + 1) * keys / columns; ++k)
            weight = std::max(weight, weights[q * keys + k]);
    return weight;
}

} // namespace

std::string weights_map(std::span<const double> weights, std::size_t queries, std::size_t keys, bool blocks) {
    constexpr std::size_t kMostColumns = 64, kMostRows = 32;
    constexpr std::array<std::string_view, 5> kBlocks{" ", "░", "▒", "▓", "█"}, kAscii{" ", ".", "+", "*", "#"};
    const std::size_t columns = std::min(keys, kMostColumns), rows = std::min(queries, kMostRows);
    const double largest = weights.empty() ? 0 : *std::ranges::max_element(weights);
    std::string map;
    for (std::size_t row = 0; row < rows; ++row) {
        map += "  |";
        for (std::size_t column = 0; column < columns; ++column) {
            const double weight = pooled_weight(weights, queries, keys, rows, columns, row, column);
            const auto shade = largest > 0 ? static_cast<std::size_t>(std::sqrt(weight / largest) * 4 + 0.5) : 0;
            map += (blocks ? kBlocks : kAscii)[std::min<std::size_t>(shade, 4)];
        }
        map += "|\n";
    }
    return map;
}

} // namespace vkattn::tools
