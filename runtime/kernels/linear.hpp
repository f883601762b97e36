#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/kernels/row.hpp"
#include "runtime/kernels/shader_paths.hpp"
#include "runtime/problem/tiles.hpp"
#include "shaders/interface/linear.h"
#include "vkattn_shaders/table.hpp"

#include <string>

namespace vkattn {

constexpr uint32_t kLinearBlock = 4; // features that kernels load through an address at a time

// A product with a weight matrix and what follows it, as shaders/linear*.comp compute it.
struct LinearProblem {
    gpu::LinearPush push{};  // sizes and strides
    uint32_t groups = 1;     // products, each with a matrix of its own
    bool gated = false;      // by two matrices, see gpu::LinearPush
    uint32_t transposed = 0; // factors: TRANSPOSED_* of shaders/interface/linear.h
    // types, alignments
#define VKATTN_TENSOR(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims) vkattn_tensor name{};
    LINEAR_TENSORS(VKATTN_TENSOR)
#undef VKATTN_TENSOR
    float norm_epsilon = 0;
    vkattn_activation activation = VKATTN_ACTIVATION_NONE;
    KernelTile tile; // what tuning found; followed where it suits
};

// The linear layers that a choice of tuning for this one serves.
LinearClass class_of(const LinearProblem &problem);

struct LinearShape {
    const Shader *shader;
    gpu::LinearConstants constants;
    Grid groups;
    CodePaths paths;         // of the shader's code that the constants switch on
    bool addressed = false;  // it reads input and weight through device addresses
    bool normalises = false; // its input, where that is asked for
};
using LinearAnswer = Answer<LinearShape>;

// A kernel of linear layers: a row and a file in shaders/.
struct LinearKernel {
    const char *name;
    std::span<const Shader *const> shaders;
    const char *merit;
    // What the device lacks for it; "": nothing.
    const char *(*missing)(const DeviceCaps &caps);
    LinearAnswer (*answer)(const LinearProblem &problem, const DeviceCaps &caps); // of a device that lacks nothing
    std::string (*describe)(const LinearShape &shape);                            // ", 8 rows, 4 blocks"
    std::span<const Knob> knobs{};
    uint32_t trial_rows = 19;                    // of the inputs that test it
    std::array<uint32_t, 6> gated_trial_knobs{}; // with which a gated product tests it; others are divided by the rule
    bool transposes = false;                     // it is for transposed factors, others are for those that are not
};

extern const LinearKernel kLinearCoopmat, kLinearAddresses, kLinearVector, kLinearTiles, kLinearDots, kLinearUniform,
    kLinearTransposed, kLinearTransposedCoopmat;

// Every one there is. Their numbers, see KernelTile, are 1 and so on.
std::span<const LinearKernel *const> linear_kernels();
uint32_t number_of(const LinearKernel &kernel);

struct LinearChoice : LinearShape {
    const LinearKernel *kernel;
    std::string reason;
};

// Chooses the kernel and how it divides the work: what tuning found, else the best that serves. Fails with
// VKATTN_ERROR_UNSUPPORTED where none does, or where the device bounds loops and the inputs have too many features.
LinearChoice choose_linear(const LinearProblem &problem, const DeviceCaps &caps);

// "linear_addresses, 8 rows, 4 blocks".
std::string words(const LinearChoice &choice);

constexpr uint32_t kLinearFeatures = 8; // that the kernels load at a time, from rows that are aligned

// Elements in 16 bytes.
inline uint32_t elements_of_vector(const vkattn_tensor &tensor) { return tensor.type == VKATTN_TYPE_F32 ? 4 : 8; }

// Of several kernels: the variant for the weight's type, what every one takes, and the layout of the factors.
const Shader &variant_of(const LinearProblem &problem, const Shader &floats, const Shader &quantised);
std::string words_of_parts(const LinearShape &shape); // ", 2 parts of the features"
gpu::LinearConstants constants_of(const LinearProblem &problem);
CodePaths paths_of(const LinearProblem &problem);
uint32_t aligned_factors(const LinearProblem &problem);
bool input_is_aligned(const LinearProblem &problem, uint32_t elements);
bool weight_is_aligned(const LinearProblem &problem, uint32_t elements); // without gaps between elements, too

// Parts of the features, of LINEAR_WORKGROUP_SIZE invocations and so many bytes of shared memory each, that share a tile: several where
// these workgroups leave cores too little to wait for one another's loads, as many as features have steps for. wanted: by tuning, or 0.
uint32_t feature_parts(const LinearProblem &problem, const Grid &groups, uint32_t step, uint32_t bytes, uint32_t wanted,
                       const DeviceCaps &caps);

constexpr uint32_t kPartsToTry[] = {1, 2, 4}; // by tuning

// Workgroups of a tile of so many outputs and rows.
Grid grid(const LinearProblem &problem, uint32_t outputs, uint32_t rows);

} // namespace vkattn
