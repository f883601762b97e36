#include "runtime/trials/budgeted_tuning.hpp"

#include "runtime/ops/linear.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/tuning.hpp"
#include "runtime/vulkan/submissions.hpp"

#include <atomic>
#include <memory>
#include <new>
#include <thread>

namespace vkattn {
namespace {

constexpr double kShareOfClass = 0.5; // of what is left

// Whether a choice of tuning would be followed. What a user's own functions do is measured where he asks for it alone.
bool can_be_tuned(const AttentionProblem &problem) {
    return !problem.batch_invariant && problem.variant == nullptr && problem.kernel != VKATTN_KERNEL_UNFUSED &&
           !present(problem.attn_weights) && !present(problem.qk_matmul_output);
}

// Around the attention of a problem whose K and V are stored rotated stand steps that are the same for all.
AttentionProblem without_rotation(AttentionProblem problem) {
    problem.key_hadamard = problem.value_hadamard = 0;
    return problem;
}

// The operands wherever a trial binds them.
LinearOperands for_roles(LinearOperands operands) {
    for (const auto &row : LinearOperands::table()) (operands.*row.member).source = {Source::Kind::kRole, row.role};
    return operands;
}

class BudgetedTuning {
  public:
    explicit BudgetedTuning(Context &context) : context_(context) {}

    // Measures the class of the problem with search(TrialTime &), which returns the candidates, where nothing is known of it.
    template <class Table, class Problem, class Run>
    void measure(Table &table, const Problem &problem, const Run &search) {
        const auto problems = class_of(problem);
        const auto is_due = [&] {
            return table.is_unasked(problems) && budget().left() > 0 && !context_.submissions().is_busy();
        };
        if (measurer_.load() == std::this_thread::get_id() || !is_due()) return;
        const std::lock_guard lock(measuring_);
        if (!is_due()) return; // another thread measured it
        const Measuring measuring(measurer_);
        TrialTime time(budget().clock(), kShareOfClass * budget().left());
        const uint32_t candidates = candidates_of(table, problems, [&] { return search(time); });
        budget().spend(time.spent(), candidates);
        table.ask(problems); // not before: others wait until it is measured
    }

  private:
    // Marks the thread that measures for as long as it lives.
    class Measuring {
      public:
        explicit Measuring(std::atomic<std::thread::id> &measurer) : measurer_(measurer) {
            measurer_ = std::this_thread::get_id();
        }
        ~Measuring() { measurer_ = std::thread::id(); }
        Measuring(const Measuring &) = delete;
        Measuring &operator=(const Measuring &) = delete;

      private:
        std::atomic<std::thread::id> &measurer_;
    };

    TuningBudget &budget() { return context_.tunings().budget; }

    // How many were measured. A class whose candidate loses the device is left to the rule for good.
    template <class Table, class Class, class Run>
    uint32_t candidates_of(Table &table, const Class &problems, const Run &search) {
        try {
            return static_cast<uint32_t>(search().size());
        } catch (const Error &error) {
            if (error.result() != VKATTN_ERROR_DEVICE_LOST) return 0;
            table.keep(problems, {});
            throw;
        } catch (const std::bad_alloc &) {
        }
        return 0;
    }

    Context &context_;
    std::mutex measuring_;                  // held while a class is measured
    std::atomic<std::thread::id> measurer_; // the thread that does, whose own plans are not measured
};

} // namespace

void allow_tuning(Context &context, double milliseconds, Clock clock) {
    Tunings &tunings = context.tunings();
    tunings.budget.allow(milliseconds, std::move(clock));
    const auto tuning = std::make_shared<BudgetedTuning>(context);
    tunings.measure_attention = [&context, tuning](const AttentionProblem &given) {
        if (!can_be_tuned(given)) return;
        const AttentionProblem problem = without_rotation(given);
        tuning->measure(context.tunings().attention, problem,
                        [&](TrialTime &time) { return tune(context, problem, time); });
    };
    tunings.measure_backward = [&context, tuning](const BackwardProblem &problem) {
        if (!can_be_tuned(problem.attention)) return;
        tuning->measure(context.tunings().backward, problem,
                        [&](TrialTime &time) { return tune(context, problem, time); });
    };
    tunings.measure_linear = [&context, tuning](const LinearProblem &problem, const LinearOperands &given) {
        const LinearOperands operands = for_roles(given);
        tuning->measure(context.tunings().linear, problem,
                        [&](TrialTime &time) { return tune(context, problem, operands, time); });
    };
}

} // namespace vkattn
