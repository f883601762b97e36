#pragma once

#include "runtime/kernels/kernel.hpp"

namespace vkattn {

// How shaders/kernels/backward/tiles.glsl divides a problem, of rows of queries or of keys that workgroups own.
struct BackwardTile {
    uint32_t workgroup, columns;
    uint32_t rows, keys; // of an invocation: its own, and of those that pass by
    uint32_t dims_of_chunk, keys_of_chunk;

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

// Of so many that pass by a tile as many as one dispatch takes: whole tiles.
uint32_t passing_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, const BackwardTile &tile,
                             uint64_t all);

} // namespace vkattn
