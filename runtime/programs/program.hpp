#pragma once

#include "runtime/plan/plan.hpp"

#include <memory>
#include <span>
#include <vector>

namespace vkattn {

// A plan of a program, and what it is bound to but for the workspace.
struct BoundPlan {
    std::shared_ptr<const Plan> plan;
    std::span<const vkattn_binding> bindings;
};

// Plans that are recorded once as one, and replayed. Immutable; replayed from any thread. What the device needs of it lives
// until it is done.
class Program {
  public:
    // plans: at least one. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the plan and the binding.
    Program(Context &context, std::span<const BoundPlan> plans);

    // Submits and waits. gpu_ms, if not NULL: milliseconds, negative without timestamps.
    void run(double *gpu_ms) const;
    // The same without a wait, between what sync, which may be NULL, says.
    void submit(const vkattn_sync *sync) const;
    const vkattn_program_report &report() const { return report_; }

  private:
    struct Recording;

    void count_growth(const Plan &plan);

    Context &context_;
    std::shared_ptr<Recording> recording_;
    std::vector<Growth> growths_; // of a replay: one for each cache, of all its plans
    mutable FirstRun first_run_;
    vkattn_program_report report_{};
};

} // namespace vkattn
