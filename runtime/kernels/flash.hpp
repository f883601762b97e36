#pragma once

#include "runtime/kernels/kernel.hpp"

namespace vkattn {

// How shaders/kernels/flash.comp divides a problem: what flash and decode have in common.
struct FlashTile {
    uint32_t rows;       // of an invocation
    uint32_t row_groups; // of a workgroup
};
constexpr uint32_t kMostRowGroups = 16;

FlashTile flash_tile(const AttentionProblem &problem, const DeviceCaps &caps);

// Its dispatch, with the rows in so many parts.
AttentionShape::Dispatch flash_dispatch(const AttentionProblem &problem, const FlashTile &tile, uint32_t parts);

std::string describe_flash(const AttentionShape &shape);

// Why a kernel that writes no scores cannot serve; "": it can.
std::string obstacle_of_scores(const AttentionProblem &problem);

} // namespace vkattn
