#pragma once

#include "runtime/kernels/kernel.hpp"

namespace vkattn {

// Halves the tile's rows while the grid is too small to fill the device. A tuned tile stays as it is.
template <class Tile, class IsIdle, class OfRows>
Tile halve_rows_while(uint32_t tuned_rows, Tile tile, uint32_t fewest, const IsIdle &is_idle, const OfRows &of_rows) {
    if (tuned_rows != 0) return tile;
    while (tile.rows > fewest && is_idle(tile)) tile = of_rows(tile.rows / 2);
    return tile;
}

// How keys are shared out: over dispatches one after the other, and over workgroups side by side, whose states
// merge_parts joins.

// Keys that a workgroup attends in one dispatch on a device that ends a shader's loops: few enough for the largest heads.
constexpr uint32_t kKeysOfBoundedLoops = 256;

// Parts of keys are multiples of it, as far as the keys allow.
constexpr uint32_t kKeysOfGranule = 32;

// Keys that a workgroup may attend in one dispatch, whole tiles of so many. Masks in blocks take a loop for each pair of
// blocks, and so one tile where loops are bounded.
uint32_t keys_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t keys_of_tile);

// Whether the self-test has left the shader, and merge_parts, the parts of such a problem.
bool may_take_parts(const AttentionProblem &problem, const DeviceCaps &caps, std::string_view shader);

// Parts shorten the time of each workgroup, but each part of each workgroup leaves states, which are read again. With p parts
// and g workgroups a part the time is about keys / p + c * p * g: least at p = sqrt(keys / (c * g)). The c is read off the
// counters of executed machine code (bench/results/split-keys-amd.md): short and long decodes, latent ones and small prefills
// on matrix units agree on it.
constexpr double kCostOfPart = 2;

// Invocations that the device takes at a time.
inline uint64_t invocations_that_fill(const DeviceCaps &caps) {
    constexpr uint64_t kInvocations = 128; // of the workgroups that parallel_workgroups counts
    return kInvocations * caps.traits.parallel_workgroups;
}

// The workgroups of one part of the keys.
struct PartWorkgroups {
    uint64_t count;
    uint64_t filling;        // that the device takes at a time
    uint32_t few_rows = 0;   // that each has, if so few that the memory of their states weighs nothing
    uint32_t keys_of_tile{}; // each part is whole tiles
    double cost_of_part = kCostOfPart;
    uint64_t empty = 0; // of them those without rows: they take time, too, but fill nothing
};

// Keys of a part that balance its time against its merge; more where that would be more workgroups than the device takes.
double keys_that_pay(const AttentionProblem &problem, const PartWorkgroups &workgroups);

// Parts of each row's keys of about so many keys: none longer than what a dispatch may attend.
uint32_t parts_that_pay(const AttentionProblem &problem, const DeviceCaps &caps, const PartWorkgroups &workgroups);

// Whether the device can bind the states of so many parts.
bool states_fit(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t parts);

// Fewer parts where the states of so many do not fit, but not fewer than are needed.
uint32_t parts_that_fit(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t parts, uint32_t fewest);

// As many parts as tuning found best or else the rule says, and as many as are needed.
uint32_t parts_between(const AttentionProblem &problem, uint64_t rule, uint64_t fewest);

// Fewer keys are not worth a part of their own.
constexpr uint32_t kFewestKeysOfPart = 64;

// Of workgroups of few rows half as many are, and fewer of larger heads.
uint32_t fewest_keys_of_part(const AttentionProblem &problem, const PartWorkgroups &workgroups);

// What follows once dispatches[0], the parts and keys_per_dispatch are settled: their states, merge and operations.
void finish_parts(const AttentionProblem &problem, const DeviceCaps &caps, AttentionShape &shape);

// Of a shader that attends the keys of so many rows at a time, a tile after the other: in as many parts as pay.
AttentionShape shape_of_row_tiles(const AttentionProblem &problem, const DeviceCaps &caps, const Shader &shader,
                                  const gpu::AttentionConstants &constants, uint32_t rows);

} // namespace vkattn
