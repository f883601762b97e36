#pragma once

#include "runtime/kernels/flash_tile.hpp"

namespace vkattn {

// Their places in KernelTile::knobs. decode, which takes flash's shader for more rows than its own serves, has the first three too.
enum FlashKnob : uint32_t { kRowsKnob, kKeysKnob, kColumnsKnob, kStagingKnob, kSharedBytesKnob };

// flash's dispatch, with the rows in so many parts.
AttentionShape::Dispatch flash_dispatch(const AttentionProblem &problem, const FlashTile &tile, uint32_t parts);

std::string describe_flash(const AttentionShape &shape);

} // namespace vkattn
