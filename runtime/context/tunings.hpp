#pragma once

#include "vkattn/vkattn.h"

#include <mutex>
#include <span>
#include <vector>

namespace vkattn {

// How a kernel divides attention among invocations; what tuning chooses. 0 in a member leaves it to the planner's rule.
// What is impossible for a problem or a device is, too, for saved choices may come from anywhere.
struct AttentionTile {
    uint32_t kernel = 0;        // vkattn_kernel that the rest is meant for; VKATTN_KERNEL_AUTO: none, all is the rule's
    uint32_t rows = 0;          // flash, decode: query rows of an invocation; coopmat: subgroups along the rows
    uint32_t keys = 0;          // of a step (flash, decode), of a tile (coopmat)
    uint32_t dim_subgroups = 0; // coopmat: that share their query rows
    uint32_t matrix_shape = 0;  // coopmat: 1 + the place in the device's list
    uint32_t parts = 0;         // of each row's keys
    bool operator==(const AttentionTile &) const = default;
};

// Problems that one choice is good for: equal in what shapes the code, and about as large.
struct ProblemClass {
    uint32_t kernel; // that the caller insists on
    uint32_t head_dim, v_head_dim, group;
    uint32_t query_type, key_type, value_type;
    uint32_t flags; // masks and layouts, see class_of
    uint32_t log2_rows, log2_keys, log2_heads;
    bool operator==(const ProblemClass &) const = default;
};

// A choice as it is saved: see saved_state.hpp.
struct SavedTuning {
    ProblemClass problems;
    AttentionTile tile;
};

// What tuning has found best on a device. Thread safe.
class Tunings {
  public:
    // The tile that was kept; one of kernel VKATTN_KERNEL_AUTO if none was.
    AttentionTile find(const ProblemClass &problems) const;
    void keep(const ProblemClass &problems, const AttentionTile &tile);

    std::vector<SavedTuning> save() const;
    void load(std::span<const SavedTuning> saved);

  private:
    mutable std::mutex mutex_;
    std::vector<SavedTuning> tunings_; // few: the problems that somebody had tuned
};

} // namespace vkattn
