#pragma once

#include "runtime/kernels/kernel.hpp"

namespace vkattn {

// How shaders/kernels/backward/tiles.glsl divides a problem, of rows of queries or of keys that workgroups own.
struct BackwardTile {
    uint32_t workgroup, columns;
    uint32_t rows, keys; // of an invocation: its own, and of those that pass by
    uint32_t dims_of_chunk, keys_of_chunk;
    bool reads_ahead; // all loads of a tile under way together, and several positions of a sum

    uint32_t own() const { return workgroup / columns * rows; }
    uint32_t passing() const { return columns * keys; }
};

enum class BackwardSums { kQueries, kKeys, kMask };

BackwardTile backward_tile(const AttentionProblem &problem, const DeviceCaps &caps, BackwardSums sums);

// Its constants, of the problem.
gpu::AttentionConstants backward_constants(const AttentionProblem &problem, const BackwardTile &tile);

// The same on matrix units.
struct BackwardMatrices {
    const Shader *shader; // nullptr: they do not serve, or do not pay
    gpu::AttentionConstants constants;
    uint32_t own; // of a workgroup's tile
};
BackwardMatrices backward_matrices(const AttentionProblem &problem, const vkattn_tensor &d_output,
                                   const DeviceCaps &caps, BackwardSums sums);

// How shaders/cpu/backward_*_addresses.comp, for CPU drivers, divide a problem.
struct AddressedBackwardTile {
    uint32_t workgroup, step; // its own ones, and those that pass by at a time
};
AddressedBackwardTile addressed_backward_tile(const AttentionProblem &problem, const DeviceCaps &caps,
                                              BackwardSums sums);

// Whether the device is one for them, and whether the problem is.
bool has_backward_addresses(const DeviceCaps &caps);
bool suits_backward_addresses(const AttentionProblem &problem, const DeviceCaps &caps, BackwardSums sums);

// Whether rows that pass by are read where they are; else in copies of f32.
bool passes_in_place(const AttentionProblem &problem, const vkattn_tensor &rows);

// Of rows of a first kind, Q or K, and of a second one, d_output or V, as they lie at the addresses.
gpu::AttentionConstants backward_constants(const AttentionProblem &problem, const AddressedBackwardTile &tile,
                                           const vkattn_tensor &first, const vkattn_tensor &second);

// Of so many that pass by a tile as many as one dispatch takes: whole tiles. iterations_of_tile: of loops, at most, whatever the head sizes,
// but of masks in blocks.
uint32_t passing_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, const BackwardTile &tile,
                             uint64_t all, uint32_t iterations_of_tile = 2048);

} // namespace vkattn
