#pragma once

#include "runtime/kernels/flash_tile.hpp"

namespace vkattn {

// flash's dispatch, with the rows in so many parts.
AttentionShape::Dispatch flash_dispatch(const AttentionProblem &problem, const FlashTile &tile, uint32_t parts);

std::string describe_flash(const AttentionShape &shape);

} // namespace vkattn
