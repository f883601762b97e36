#pragma once

#include <cstdint>

namespace vkattn {

// How a kernel divides attention among invocations; what tuning chooses. 0 in a member leaves it to the planner's rule.
// The rule also decides what is impossible for a problem or a device: saved choices may come from anywhere.
struct AttentionTile {
    uint32_t kernel = 0;       // vkattn_kernel that the rest is meant for; VKATTN_KERNEL_AUTO: none, all is the rule's
    uint32_t rows = 0;         // flash, decode: query rows of an invocation; coopmat: subgroups along the rows
    uint32_t keys = 0;         // of a step (flash, decode), of a tile (coopmat)
    uint32_t columns = 0;      // flash, decode: invocations that share a row of the output, or of K
    uint32_t staging = 0;      // flash: 1 + what shared memory holds of 16-bit K and V: f32, 16 bits, 16 bits by eights
    uint32_t shared_bytes = 0; // flash: of a workgroup, about
    uint32_t dim_subgroups = 0; // coopmat: that share their query rows
    uint32_t matrix_shape = 0;  // coopmat: 1 + the place in the device's list
    uint32_t parts = 0;         // of each row's keys
};

// Problems that one choice is good for: equal in what shapes the code, and about as large.
struct AttentionClass {
    uint32_t kernel; // the requested one, or VKATTN_KERNEL_AUTO
    uint32_t head_dim, v_head_dim, group;
    uint32_t query_type, key_type, value_type;
    uint32_t flags; // masks and layouts, see class_of
    uint32_t log2_rows, log2_keys, log2_heads;
    bool operator==(const AttentionClass &) const = default;
};

// The shaders that compute a linear layer: see runtime/kernels/linear.cpp.
enum class LinearShader : uint32_t { kNone, kVector, kAddresses, kTiles, kMatrices };

// How a shader divides a linear layer; what tuning chooses, as an AttentionTile.
struct LinearTile {
    uint32_t shader = 0;       // LinearShader that the rest is meant for; kNone: all is the rule's
    uint32_t rows = 0;         // kAddresses: of an invocation
    uint32_t blocks = 0;       // kAddresses: of four features, loaded at a time
    uint32_t matrix_shape = 0; // kMatrices: 1 + the place in the device's list
    uint32_t subgroups = 0;    // kMatrices: of a workgroup
    uint32_t matrices = 0;     // kMatrices: of a subgroup, along the rows and along the outputs
};

// Linear layers that one choice is good for.
struct LinearClass {
    uint32_t input_type, weight_type, output_type;
    uint32_t flags; // layouts, see class_of
    uint32_t in_features, out_features;
    uint32_t log2_rows, log2_groups;
    bool operator==(const LinearClass &) const = default;
};

} // namespace vkattn
