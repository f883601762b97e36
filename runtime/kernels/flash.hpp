#pragma once

#include "runtime/kernels/kernel.hpp"

namespace vkattn {

// Their places in KernelTile::knobs. decode, which takes flash's shader for more rows than its own serves, has the first three too.
enum FlashKnob : uint32_t { kRowsKnob, kKeysKnob, kColumnsKnob, kStagingKnob, kSharedBytesKnob };

// How shaders/kernels/flash.comp divides a problem.
struct FlashTile {
    const Shader *shader;
    uint32_t workgroup; // invocations
    uint32_t columns;   // invocations that share a row
    uint32_t rows;      // of an invocation
    uint32_t keys;      // of an invocation, in a tile
    uint32_t dims_of_chunk, keys_of_chunk;
    bool query_staged;
};

// What of a tile its kernel decides.
struct FlashUse {
    bool parts = false;                    // each row's keys are split into parts
    uint32_t most_rows = 4, most_keys = 4; // of an invocation; what tuning found may be more
};
FlashTile flash_tile(const AttentionProblem &problem, const DeviceCaps &caps, const FlashUse &use = {});

inline uint32_t rows_of_tile(const FlashTile &tile) { return tile.workgroup / tile.columns * tile.rows; }

inline uint32_t keys_of_tile(const FlashTile &tile) { return tile.columns * tile.keys; }

// flash's dispatch, with the rows in so many parts.
AttentionShape::Dispatch flash_dispatch(const AttentionProblem &problem, const FlashTile &tile, uint32_t parts);

std::string describe_flash(const AttentionShape &shape);

} // namespace vkattn
