// Attention weights as text, for a terminal.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace vkattn::tools {

// The largest weight of the queries and keys that share a cell, where rows x columns cells show [queries, keys]
// weights.
double pooled_weight(std::span<const double> weights, std::size_t queries, std::size_t keys, std::size_t rows,
                     std::size_t columns, std::size_t row, std::size_t column);

// Returns lines of characters, darker for larger weights (by their roots), of [queries, keys] weights; at most so many
// columns and rows, by pooling. blocks: Unicode's shades, else ASCII.
std::string weights_map(std::span<const double> weights, std::size_t queries, std::size_t keys, bool blocks);

} // namespace vkattn::tools
