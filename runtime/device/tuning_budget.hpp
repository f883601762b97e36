#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace vkattn {

// Milliseconds since some beginning.
using Clock = std::function<double()>;

inline double steady_milliseconds() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What a context may spend on measuring problems that nothing is known of, and what it has. Thread safe.
class TuningBudget {
  public:
    struct Report {
        double allowed, spent;           // milliseconds
        uint32_t measured, left_out = 0; // classes; left out: the rest did not allow any candidate
        uint32_t candidates = 0;         // of those that were measured
    };

    // Before the context is used.
    void allow(double milliseconds, Clock clock) {
        allowed_ = milliseconds;
        clock_ = std::move(clock);
    }

    const Clock &clock() const { return clock_; }

    // Milliseconds; 0: nothing is measured any more.
    double left() const {
        const std::lock_guard lock(mutex_);
        return std::max(allowed_ - spent_, 0.0);
    }

    // Of one class. candidates: 0 where it was left out.
    void spend(double milliseconds, uint32_t candidates) {
        const std::lock_guard lock(mutex_);
        spent_ += milliseconds;
        candidates_ += candidates;
        ++(candidates != 0 ? measured_ : left_out_);
    }

    Report report() const {
        const std::lock_guard lock(mutex_);
        return {allowed_, spent_, measured_, left_out_, candidates_};
    }

  private:
    Clock clock_ = steady_milliseconds;
    double allowed_ = 0;
    mutable std::mutex mutex_; // of what follows
    double spent_ = 0;
    uint32_t measured_ = 0, left_out_ = 0, candidates_ = 0;
};

} // namespace vkattn
