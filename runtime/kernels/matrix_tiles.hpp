#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/vulkan/shader.hpp"

namespace vkattn {

// How a workgroup of coopmat divides its tile: see ATTENTION_CONSTANTS in shaders/interface/attention.h.
struct MatrixTile {
    vkattn_matrix_shape shape;
    uint32_t subgroup_size;
    uint32_t row_subgroups; // 0: no tile fits the device
    uint32_t dim_subgroups;
    uint32_t row_matrices;
    uint32_t keys;
    uint32_t chunk_dims = 0; // of K in shared memory at a time
    uint32_t chunk_keys = 0; // of V in shared memory at a time
    bool takes_turns = false;
    bool query_in_registers = false;
};

// Places in KernelTile::knobs.
enum MatrixKnob : uint32_t { kRowSubgroupsKnob, kMatrixKeysKnob, kDimSubgroupsKnob };

// What the table says of the class of the device, or a rule where it is none of the table's; what tuning found of it goes
// before. Then as many rows as the problem has, and chunks that fit into shared memory.
MatrixTile matrix_tile(const AttentionProblem &problem, const DeviceCaps &caps, const Shader &shader);

// The subgroups of linear layers: the first that the table has for such matrices, else the device's own.
uint32_t matrix_subgroup_size(const vkattn_matrix_shape &shape, const DeviceCaps &caps);

inline uint32_t rows_of(const MatrixTile &tile) { return tile.row_subgroups * tile.row_matrices * tile.shape.m; }
inline uint32_t subgroups_of(const MatrixTile &tile) { return tile.row_subgroups * tile.dim_subgroups; }

} // namespace vkattn
