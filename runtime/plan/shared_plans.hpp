#pragma once

#include "runtime/plan/plan.hpp"

#include <functional>
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
    // The plan of that key, or the one that make() makes, which is kept: where they are too many, the one that was not used for
    // longest goes.
    std::shared_ptr<const Plan> get(const std::string &key, const std::function<std::unique_ptr<const Plan>()> &make);
    void clear();

  private:
    std::shared_ptr<const Plan> find(const std::string &key);
    void add(const std::string &key, std::shared_ptr<const Plan> plan);

    using Used = std::list<std::pair<std::string, std::shared_ptr<const Plan>>>; // the last one first

    const size_t most_;
    std::mutex mutex_; // of what follows
    Used used_;
    std::map<std::string, Used::iterator> by_key_;
};

} // namespace vkattn
