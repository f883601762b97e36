#pragma once

#include "runtime/plan/plan.hpp"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace vkattn {

// Plans by what they were made of, the ones used last. Thread safe.
class SharedPlans {
  public:
    explicit SharedPlans(size_t most) : most_(most) {}

    bool keeps_any() const { return most_ > 0; }
    // The plan of that key, or NULL.
    std::shared_ptr<const Plan> find(const std::string &key);
    // Keeps a plan, and lets go of the one that was not used for longest where there are too many.
    void add(const std::string &key, std::shared_ptr<const Plan> plan);
    void clear();

  private:
    using Used = std::list<std::pair<std::string, std::shared_ptr<const Plan>>>; // the last one first

    const size_t most_;
    std::mutex mutex_; // of what follows
    Used used_;
    std::map<std::string, Used::iterator> by_key_;
};

} // namespace vkattn
