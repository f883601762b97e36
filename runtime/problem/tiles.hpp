#pragma once

#include <array>
#include <cstdint>

namespace vkattn {

// How a kernel divides a problem; what tuning chooses. 0 in a member leaves it to the kernel's rule, which also decides what is
// impossible for a problem or a device: saved choices may come from anywhere.
struct KernelTile {
    uint32_t kernel = 0;             // its number, which the rest is meant for; 0: none, all is the rule's
    uint32_t parts = 0;              // of each row's keys
    uint32_t matrix_shape = 0;       // 1 + the place in the device's list
    std::array<uint32_t, 6> knobs{}; // the kernel's own, as its row lists them
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

// Gradients of attention that one choice is good for: those of queries, or those of keys and values.
struct BackwardClass {
    AttentionClass attention;
    uint32_t sums;                                                  // which
    uint32_t d_output_type, d_query_type, d_key_type, d_value_type; // VKATTN_TYPE_NONE: not computed
    bool operator==(const BackwardClass &) const = default;
};

// Linear layers that one choice is good for.
struct LinearClass {
    uint32_t input_type, weight_type, output_type;
    uint32_t flags; // layouts and what it normalises, see class_of
    uint32_t in_features, out_features;
    uint32_t log2_rows, log2_groups;
    bool operator==(const LinearClass &) const = default;
};

} // namespace vkattn
