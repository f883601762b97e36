#pragma once

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

// The tensors of a problem in device memory.
class TrialBuffers {
  public:
    // A buffer for the tensor, for the caller to fill.
    Buffer &add(Context &context, vkattn_role role, const vkattn_tensor &tensor);
    void add_numbers(Context &context, vkattn_role role, const vkattn_tensor &tensor);
    void add_output(Context &context, const vkattn_tensor &tensor);

    std::span<const vkattn_binding> bindings() const { return bindings_; }
    void poison_output(); // so that what is not written is seen
    std::vector<float> read_output();

  private:
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::vector<vkattn_binding> bindings_;
    Buffer *output_ = nullptr;
    vkattn_tensor output_tensor_{};
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
    std::string compare_output();

    TrialBuffers buffers_;
    std::vector<Trial> trials_; // of each candidate
    std::vector<Candidate> candidates_;
    std::vector<double> expected_; // the first trial's output
};

// The problem, divided as the tile says.
template <class Problem>
Problem divided(Problem problem, const KernelTile &tile) {
    problem.tile = tile;
    return problem;
}

// A search over the tiles of one problem.
class TileSearch {
  public:
    using Make = std::function<Trial(const KernelTile &)>; // fails where the tile does not serve

    // Begins with the untuned plan's tile, which must serve.
    TileSearch(TrialBuffers buffers, Make make, const KernelTile &untuned)
        : trials_(std::move(buffers)), make_(std::move(make)) {
        measure(untuned, make_(untuned));
    }

    const Trials &trials() const { return trials_; }
    const KernelTile &fastest_of(uint32_t family) const { return tiles_[*trials_.fastest(family)]; }

    // Measures a tile unless it is impossible, needs too much memory or comes to what has been measured already.
    void attempt(const KernelTile &tile) {
        try {
            measure(tile, make_(tile));
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
    const KernelTile &choose() { return tiles_[trials_.choose()]; }
    std::vector<Candidate> candidates() && { return std::move(trials_).candidates(); }

  private:
    void measure(const KernelTile &tile, Trial trial) {
        if (trials_.measure(std::move(trial))) tiles_.push_back(tile);
    }

    Trials trials_;
    Make make_;
    std::vector<KernelTile> tiles_; // of each trial
};

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
