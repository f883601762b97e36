#pragma once

#include "runtime/device/tuning_budget.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/trial_values.hpp"

#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vkattn {

// A way of computing a problem, tried.
struct Candidate {
    vkattn_kernel kernel;
    std::string tile;    // in words
    double milliseconds; // of one run, a median
    std::string reason;  // why it cannot be used; "" if it can
    bool kept = false;
};

// The time that a search may take, which counts from begin() on.
class TrialTime {
  public:
    TrialTime() = default; // any
    TrialTime(Clock clock, double milliseconds) : clock_(std::move(clock)), most_(milliseconds) {}

    double now() const { return clock_(); }
    void begin() { begun_ = now(); }
    void leave_out(double milliseconds) { begun_ = begun_.value_or(now()) + milliseconds; }
    double spent() const { return begun_.has_value() ? now() - *begun_ : 0.0; }
    bool is_limited() const { return most_.has_value(); }
    bool allows(double milliseconds) const { return !most_.has_value() || spent() + milliseconds <= *most_; }

  private:
    Clock clock_ = steady_milliseconds;
    std::optional<double> most_, begun_;
};

// The tensors of a problem in device memory.
class TrialBuffers {
  public:
    // A buffer for the tensor, for the caller to fill.
    Buffer &add(Context &context, vkattn_role role, const vkattn_tensor &tensor);
    void add_numbers(Context &context, vkattn_role role, const vkattn_tensor &tensor);
    void add_output(Context &context, vkattn_role role, const vkattn_tensor &tensor);

    std::span<const vkattn_binding> bindings() const { return bindings_; }
    void poison_outputs(); // so that what is not written is seen
    std::vector<std::vector<float>> read_outputs();

  private:
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::vector<vkattn_binding> bindings_;
    std::vector<std::pair<Buffer *, vkattn_tensor>> outputs_;
    TrialNumbers numbers_;
};

// A candidate, ready to run.
struct Trial {
    std::unique_ptr<const Plan> plan;
    vkattn_kernel kernel;
    uint32_t family;               // of candidates that differ in numbers alone
    std::string tile;              // in words
    std::vector<std::byte> code{}; // and its grid: equal trials would run the same
};

// Ways of computing one problem, run in turn on the same buffers and compared. The first is the untuned plan's.
class Trials {
  public:
    explicit Trials(TrialBuffers buffers) : buffers_(std::move(buffers)) {}

    // Milliseconds of the first run of a plan, in which some drivers compile it, and of another one, with the host's part.
    std::pair<double, double> rehearse(const Plan &plan, const Clock &now) const;

    // Returns whether it was new.
    bool measure(Trial trial);

    // The fastest that can be used, of a family or of all.
    std::optional<size_t> fastest(std::optional<uint32_t> family = std::nullopt) const;
    // Whether the fastest of the family is worth trying with other tiles.
    bool is_near(uint32_t family) const;

    // The index of what is kept: the untuned plan's way is given up only for what is clearly faster, measured beside it
    // once more.
    size_t choose();
    std::vector<Candidate> candidates() && { return std::move(candidates_); }

  private:
    double run(const Plan &plan) const;
    std::pair<double, double> time_in_turn(const Plan &a, const Plan &b) const;
    std::string compare_outputs();

    TrialBuffers buffers_;
    std::vector<Trial> trials_; // of each candidate
    std::vector<Candidate> candidates_;
    std::vector<std::vector<double>> expected_; // the first trial's outputs
};

// The tensors that a search will want, made when it begins.
struct TrialMemory {
    uint64_t bytes;
    std::function<TrialBuffers()> make;
};

// The runs that measure one candidate, at the fewest, and compare the one that is kept with the untuned plan.
constexpr uint32_t kRunsOfTrial = 7, kRunsOfChoice = 6;

// What filling so many bytes and running a plan may take on a slow device of its kind, in milliseconds: a guess, before anything
// is known.
double guessed_milliseconds(const Plan &plan, uint64_t bytes);

// The problem, divided as the tile says.
template <class Problem>
Problem divided(Problem problem, const KernelTile &tile) {
    problem.tile = tile;
    return problem;
}

// A search over the tiles of one problem, until it has tried all or its time is over: a candidate is tried only where there is
// time for one that takes as long as the longest so far.
class TileSearch {
  public:
    using Make = std::function<Trial(const KernelTile &)>; // fails where the tile does not serve

    // Begins with the untuned plan's tile, which must serve. What making that plan takes is not the search's: somebody needs it.
    TileSearch(const TrialMemory &memory, Make make, const KernelTile &untuned, TrialTime &time)
        : make_(std::move(make)), time_(time) {
        const double start = time_.now();
        Trial first = make_(untuned);
        costliest_ = time_.now() - start;
        time_.begin();
        if (has_time_for(*first.plan, memory)) measure(untuned, std::move(first));
    }

    // Whether there was time for the untuned plan and one more candidate.
    bool has_begun() const { return !tiles_.empty(); }
    // Whether something is left to keep: another candidate was measured, or there is none.
    bool is_worth_keeping() const { return tiles_.size() > 1 || (has_begun() && !is_cut_); }

    const Trials &trials() const { return *trials_; }
    const KernelTile &fastest_of(uint32_t family) const { return tiles_[*trials_->fastest(family)]; }

    // Measures a tile unless it is impossible, needs too much memory, comes to what has been measured already or may take more
    // than the time that is left.
    void attempt(const KernelTile &tile) {
        is_cut_ = is_cut_ || !time_.allows(costliest_ + comparison_);
        if (is_cut_) return;
        try {
            const double start = time_.now();
            measure(tile, make_(tile));
            costliest_ = std::max(costliest_, time_.now() - start);
        } catch (const Error &error) {
            if (!blames_kernel(error) && error.result() != VKATTN_ERROR_OUT_OF_DEVICE_MEMORY) throw;
        }
    }

    // Attempts other numbers in the tile of the family's fastest: `number` finds where they stand.
    template <class Number>
    void vary(uint32_t family, std::span<const uint32_t> values, const Number &number) {
        for (const uint32_t value : values) {
            KernelTile tile = fastest_of(family);
            number(tile) = value;
            attempt(tile);
        }
    }

    // Attempts all that its row leaves to tuning: every matrix shape of the device, then what each knob may be.
    template <class Row>
    void vary_knobs(uint32_t family, const Row &row, const DeviceCaps &caps) {
        std::vector<uint32_t> shapes(row.shaders.front()->matrices != VKATTN_TYPE_NONE ? caps.matrix_shape_count : 0);
        std::iota(shapes.begin(), shapes.end(), 1u);
        vary(family, shapes, [](KernelTile &tile) -> uint32_t & { return tile.matrix_shape; });
        for (size_t i = 0; i < row.knobs.size(); ++i)
            vary(family, row.knobs[i].values, [i](KernelTile &tile) -> uint32_t & { return tile.knobs[i]; });
    }

    // What is kept.
    const KernelTile &choose() { return tiles_[trials_->choose()]; }
    std::vector<Candidate> candidates() && { return std::move(*trials_).candidates(); }

  private:
    void measure(const KernelTile &tile, Trial trial) {
        const double start = time_.now();
        if (trials_->measure(std::move(trial))) tiles_.push_back(tile);
        if (tiles_.size() == 1) comparison_ = time_.now() - start;
    }

    // Makes the tensors, and runs the untuned plan where it must learn what a candidate takes.
    bool has_time_for(const Plan &untuned, const TrialMemory &memory) {
        is_cut_ = time_.is_limited() && !time_.allows(guessed_milliseconds(untuned, memory.bytes));
        if (is_cut_) return false;
        trials_.emplace(memory.make());
        if (!time_.is_limited()) return true;
        const auto [first, another] = trials_->rehearse(untuned, [this] { return time_.now(); });
        time_.leave_out(std::max(first - another, 0.0)); // what some drivers compile then: the plan needs it, too
        costliest_ += first + kRunsOfTrial * another;
        is_cut_ = !time_.allows(costliest_ + (kRunsOfTrial + kRunsOfChoice) * another);
        return !is_cut_;
    }

    Make make_;
    TrialTime &time_;
    std::optional<Trials> trials_;
    std::vector<KernelTile> tiles_; // of each trial
    double costliest_ = 0;          // candidate, with what it takes to build it, so far
    double comparison_ = 0;         // what measuring the untuned plan took
    bool is_cut_ = false;
};

// Keeps what a search found, where that is worth it, and returns the candidates; none where it is not.
template <class Table, class Class>
std::vector<Candidate> finish(TileSearch tiles, Table &table, const Class &problems) {
    if (!tiles.is_worth_keeping()) return {};
    table.keep(problems, tiles.choose());
    return std::move(tiles).candidates();
}

// The bytes of what makes two trials the same.
template <class... Parts>
std::vector<std::byte> code_of(const Parts &...parts) {
    std::vector<std::byte> code;
    const auto append = [&](const auto &part) {
        const auto bytes = std::as_bytes(std::span(&part, 1));
        code.resize(code.size() + bytes.size());
        std::memcpy(code.data() + code.size() - bytes.size(), bytes.data(), bytes.size());
    };
    (append(parts), ...);
    return code;
}

} // namespace vkattn
