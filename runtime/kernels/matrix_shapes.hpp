#pragma once

#include "runtime/kernels/shader_paths.hpp"

#include <string>
#include <vector>

namespace vkattn {

// What the device lacks for cooperative matrices; "": nothing.
const char *obstacle_of_matrices(const DeviceCaps &caps);

// Whether a shader's matrix of sums becomes a factor as it is.
bool converts_sums(const Shader &shader);

// What multiplies matrices.
struct MatrixUse {
    const Shader *shader;
    vkattn_type type; // of the factors
    CodePaths paths;  // of the shader
};

// Whether the shape at this index of the device's list serves, and tests have not ruled it out.
bool is_usable_shape(const DeviceCaps &caps, const MatrixUse &use, uint32_t index);

// Their indices, the largest first.
std::vector<uint32_t> usable_shapes(const DeviceCaps &caps, const MatrixUse &use);

// The first of them. nullptr: there is none.
const vkattn_matrix_shape *largest_matrix_shape(const DeviceCaps &caps, const MatrixUse &use);

// What tuning found (KernelTile::matrix_shape), where it is usable, or the largest, which is there.
const vkattn_matrix_shape &matrix_shape_of(const DeviceCaps &caps, const MatrixUse &use, uint32_t tuned);

// Why there are no such matrices here; "" if there are.
std::string matrix_obstacle(const DeviceCaps &caps, const MatrixUse &use);

} // namespace vkattn
