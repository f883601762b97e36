#pragma once

#include "runtime/problem/tiles.hpp"

#include <algorithm>
#include <mutex>
#include <span>
#include <vector>

namespace vkattn {

// A choice as it is saved: see saved_state.hpp.
template <class Class>
struct SavedTuning {
    Class problems;
    KernelTile tile;
};

using SavedAttentionTuning = SavedTuning<AttentionClass>;
using SavedLinearTuning = SavedTuning<LinearClass>;

// What tuning has found best on a device for problems of one kind. Thread safe.
template <class Class>
class TuningTable {
  public:
    using Saved = SavedTuning<Class>;

    // The tile that was kept; one that leaves all to the rule if none was.
    KernelTile find(const Class &problems) const {
        const std::lock_guard lock(mutex_);
        const auto found = std::ranges::find(tunings_, problems, &Saved::problems);
        return found == tunings_.end() ? KernelTile{} : found->tile;
    }

    void keep(const Class &problems, const KernelTile &tile) {
        const std::lock_guard lock(mutex_);
        const auto found = std::ranges::find(tunings_, problems, &Saved::problems);
        if (found == tunings_.end())
            tunings_.push_back({problems, tile});
        else
            found->tile = tile;
    }

    std::vector<Saved> save() const {
        const std::lock_guard lock(mutex_);
        return tunings_;
    }

    void load(std::span<const Saved> saved) {
        const std::lock_guard lock(mutex_);
        tunings_.assign(saved.begin(), saved.end());
    }

  private:
    mutable std::mutex mutex_;
    std::vector<Saved> tunings_; // few: the problems that somebody had tuned
};

struct Tunings {
    TuningTable<AttentionClass> attention;
    TuningTable<LinearClass> linear;
};

} // namespace vkattn
