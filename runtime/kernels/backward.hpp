#pragma once

#include "runtime/kernels/kernel.hpp"

#include <functional>

namespace vkattn {

// What a dispatch sums: of its own rows d_query, of its own keys d_key and d_value, of both d_attn_mask.
enum class BackwardSums : uint32_t { kQueries, kKeys, kMask };

// Gradients of rows of queries, or of keys, as kernels divide them.
struct BackwardProblem {
    BackwardSums sums;
    AttentionProblem attention; // as the shaders have it
    vkattn_tensor d_output{};
    vkattn_tensor d_query{}, d_key{}, d_value{}; // of queries the first, of keys the others; absent: not computed
    KernelTile tile{};                           // what tuning found; followed where it suits
};

// The gradients that a choice of tuning for these serves.
BackwardClass class_of(const BackwardProblem &problem);

struct BackwardShape {
    const Shader *shader;
    gpu::AttentionConstants constants; // but of the gradients' types
    uint32_t own, passing; // rows or keys of a workgroup, and those of the other kind that pass by at a time
};
using BackwardAnswer = Answer<BackwardShape>;

// A kernel of attention's gradients: a row, a file beside this one, and shaders.
struct BackwardKernel {
    std::span<const Shader *const> shaders;
    BackwardAnswer (*answer)(const BackwardProblem &problem, const DeviceCaps &caps);
    std::string (*describe)(const BackwardShape &shape); // "16 rows, 64 keys at a time"
    std::span<const Knob> knobs;
};

extern const BackwardKernel kBackwardAddresses, kBackwardCoopmat, kBackwardTiles;

// Every one there is. Their numbers, see KernelTile, are 1 and so on.
std::span<const BackwardKernel *const> backward_kernels();
uint32_t number_of(const BackwardKernel &kernel);

struct BackwardChoice : BackwardShape {
    const BackwardKernel *kernel;
    bool is_tuned;
};

// Of the kernels whose shader may be taken, what tuning found, else the best that serves; kBackwardTiles where there is no other.
BackwardChoice choose_backward(const BackwardProblem &problem, const DeviceCaps &caps,
                               const std::function<bool(const Shader &)> &may_take);

// "backward_queries_coopmat, 32 rows, 32 keys at a time".
std::string words(const BackwardChoice &choice);
std::string words_of_tile(const BackwardShape &shape);

// Whether the device is one for kBackwardAddresses.
bool has_backward_addresses(const DeviceCaps &caps);

// Whether rows that pass by are read where they are; else in copies of f32.
bool passes_in_place(const AttentionProblem &problem, const vkattn_tensor &rows);

// The constants that say how rows of a first kind, Q or K, and of a second one, d_output or V, lie at addresses.
void set_addressed_rows(gpu::AttentionConstants &constants, const vkattn_tensor &first, const vkattn_tensor &second);

// Of gradients of the mask and of captured tensors, which are sums of kBackwardTiles, too.
BackwardShape mask_shape(const AttentionProblem &problem, const DeviceCaps &caps);

// Of so many that pass by a tile of a shape of kBackwardTiles as many as one dispatch takes: whole tiles. iterations_of_tile: of loops, at
// most, whatever the head sizes, but of masks in blocks.
uint32_t passing_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, const BackwardShape &shape,
                             uint64_t all, uint32_t iterations_of_tile = 2048);

} // namespace vkattn
