#pragma once

#include "runtime/device/tuning_budget.hpp"
#include "runtime/problem/tiles.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace vkattn {

struct AttentionProblem;
struct BackwardProblem;
struct LinearOperands;
struct LinearProblem;

// A choice as it is saved: see saved_state.hpp.
template <class Class>
struct SavedTuning {
    Class problems;
    KernelTile tile;
};

using SavedAttentionTuning = SavedTuning<AttentionClass>;
using SavedBackwardTuning = SavedTuning<BackwardClass>;
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

    // Whether nothing was kept for such problems, nor asked for.
    bool is_unasked(const Class &problems) const {
        const std::lock_guard lock(mutex_);
        return std::ranges::find(tunings_, problems, &Saved::problems) == tunings_.end() &&
               std::ranges::find(asked_, problems) == asked_.end();
    }

    // Has this context ask for them once.
    void ask(const Class &problems) {
        const std::lock_guard lock(mutex_);
        asked_.push_back(problems);
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
    std::vector<Saved> tunings_; // few: the problems that were measured
    std::vector<Class> asked_;   // not saved: the next context asks again for what was left out
};

struct Tunings {
    TuningTable<AttentionClass> attention;
    TuningTable<BackwardClass> backward;
    TuningTable<LinearClass> linear;

    // What is measured unasked, and how, before a plan takes it; empty: nothing is.
    TuningBudget budget;
    std::function<void(const AttentionProblem &)> measure_attention;
    std::function<void(const BackwardProblem &)> measure_backward;
    std::function<void(const LinearProblem &, const LinearOperands &)> measure_linear;
};

} // namespace vkattn
