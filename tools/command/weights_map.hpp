// Attention weights as text, for a terminal.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace vkattn::tools {

// Returns lines of characters, darker for larger weights (by their roots), of [queries, keys] weights; at most so many
// columns and rows, by pooling. blocks: Unicode's shades, else ASCII.
std::string weights_map(std::span<const double> weights, std::size_t queries, std::size_t keys, bool blocks);

} // namespace vkattn::tools
