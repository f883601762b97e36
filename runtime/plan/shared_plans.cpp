#include "runtime/plan/shared_plans.hpp"

namespace vkattn {

std::shared_ptr<const Plan> SharedPlans::get(const std::string &key,
                                             const std::function<std::unique_ptr<const Plan>()> &make) {
    if (std::shared_ptr<const Plan> known = find(key)) return known;
    std::shared_ptr<const Plan> made = make(); // others may make it meanwhile
    add(key, made);
    return made;
}

std::shared_ptr<const Plan> SharedPlans::find(const std::string &key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    used_.splice(used_.begin(), used_, found->second);
    return found->second->second;
}

void SharedPlans::add(const std::string &key, std::shared_ptr<const Plan> plan) {
    std::shared_ptr<const Plan> last; // destroyed without the lock
    const std::lock_guard lock(mutex_);
    if (by_key_.contains(key)) return;
    used_.emplace_front(key, std::move(plan));
    by_key_[key] = used_.begin();
    if (used_.size() <= most_) return;
    last = std::move(used_.back().second);
    by_key_.erase(used_.back().first);
    used_.pop_back();
}

void SharedPlans::clear() {
    Used all; // destroyed without the lock
    const std::lock_guard lock(mutex_);
    by_key_.clear();
    all.swap(used_);
}

} // namespace vkattn
