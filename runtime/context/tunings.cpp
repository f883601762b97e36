#include "runtime/context/tunings.hpp"

#include <algorithm>

namespace vkattn {

AttentionTile Tunings::find(const ProblemClass &problems) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(tunings_, problems, &SavedTuning::problems);
    return found == tunings_.end() ? AttentionTile{} : found->tile;
}

void Tunings::keep(const ProblemClass &problems, const AttentionTile &tile) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(tunings_, problems, &SavedTuning::problems);
    if (found == tunings_.end())
        tunings_.push_back({problems, tile});
    else
        found->tile = tile;
}

std::vector<SavedTuning> Tunings::save() const {
    const std::lock_guard lock(mutex_);
    return tunings_;
}

void Tunings::load(std::span<const SavedTuning> saved) {
    const std::lock_guard lock(mutex_);
    tunings_.assign(saved.begin(), saved.end());
}

} // namespace vkattn
