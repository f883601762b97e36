#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/kernels/shader_paths.hpp"
#include "runtime/problem/tiles.hpp"
#include "runtime/vulkan/shader.hpp"
#include "shaders/interface/linear.h"
#include "vkattn_shaders/table.hpp"

#include <string>

namespace vkattn {

constexpr uint32_t kLinearBlock = 4; // features that linear_addresses loads at a time

// A product with a weight matrix and what follows it, as shaders/linear*.comp compute it.
struct LinearProblem {
    gpu::LinearPush push{}; // sizes and strides
    uint32_t groups = 1;    // products, each with a matrix of its own
    // types, alignments; absent: bias, multiplier and residual may be
    vkattn_tensor input{}, weight{}, output{}, bias{}, multiplier{}, residual{};
    vkattn_activation activation = VKATTN_ACTIVATION_NONE;
    LinearTile tile; // what tuning found; followed where it suits
};

// The linear layers that a choice of tuning for this one serves.
LinearClass class_of(const LinearProblem &problem);

struct LinearChoice {
    LinearShader shader;
    const Shader *object;
    gpu::LinearConstants constants;
    Grid groups;
    CodePaths paths; // of the shader's code that the constants switch on
    std::string reason;
};

// Chooses the shader and how it divides the work. Fails with VKATTN_ERROR_UNSUPPORTED where the device bounds loops and
// the inputs have too many features.
LinearChoice choose_linear(const LinearProblem &problem, const DeviceCaps &caps);

// "linear_addresses, 8 rows, 4 blocks".
std::string words(const LinearChoice &choice);

} // namespace vkattn
